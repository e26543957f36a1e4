"""What every strategy must do: one body of tests over all of them."""
