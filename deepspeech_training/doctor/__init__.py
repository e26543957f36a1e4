"""What is wrong, and what is strange, about data sets: found, told, and left out."""
