"""Style and program of the HTML report, which needs no network."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8885; --sub: #c60; --del: #c22; --ins: #07a; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.confusions { display: flex; flex-wrap: wrap; gap: 2rem; align-items: flex-start; }
.controls { display: flex; flex-wrap: wrap; gap: 1rem; margin: .8rem 0; align-items: center; }
th button { font: inherit; font-weight: bold; border: 0; background: none; color: inherit; padding: 0; }
th button { cursor: pointer; }
th[aria-sort=ascending] button::after { content: ' \\2191'; }
th[aria-sort=descending] button::after { content: ' \\2193'; }
.word { display: inline-block; margin-right: .4em; padding: 0 .15em; vertical-align: top; }
.word b, .word i { display: block; font-weight: normal; font-style: normal; min-height: 1.45em; }
.word i { opacity: .65; }
.substitution, .deletion, .insertion { border-radius: .2em; background: #8882; }
.substitution i, .deletion b, .insertion i { opacity: 1; font-weight: bold; }
.substitution i, .key .substitution { color: var(--sub); }
.deletion b, .key .deletion { color: var(--del); text-decoration: line-through; }
.insertion i, .key .insertion { color: var(--ins); }
.file { font-size: .8rem; opacity: .7; word-break: break-all; }
audio { width: 14rem; height: 2rem; }
"""

SCRIPT = """
(() => {
  const body = document.querySelector('#utterances tbody');
  const rows = [...body.rows];
  const text = document.querySelector('#text'), set = document.querySelector('#set');
  const wrong = document.querySelector('#wrong'), shown = document.querySelector('#shown');
  const words = rows.map(row => row.querySelector('.text').textContent.toLowerCase());
  const heads = [...document.querySelectorAll('#utterances th[data-key]')];
  function filter() {
    const wanted = text.value.trim().toLowerCase();
    let count = 0;
    rows.forEach((row, place) => {
      const fits = (!wanted || words[place].includes(wanted)) && (!set.value || row.dataset.set === set.value)
        && (!wrong.checked || row.dataset.errors !== '0');
      row.hidden = !fits;
      count += fits;
    });
    shown.textContent = `${count} of ${rows.length} shown`;
  }
  function sort(head) {
    const key = head.dataset.key;
    const down = head.getAttribute('aria-sort') !== 'descending';
    const value = row => key === 'file' ? row.dataset.file : Number(row.dataset[key]);
    const sorted = rows.slice().sort((a, b) => {
      const x = value(a), y = value(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    heads.forEach(each => each.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    body.append(...sorted);
  }
  heads.forEach(head => head.querySelector('button').addEventListener('click', () => sort(head)));
  [text, set, wrong].forEach(each => each.addEventListener('input', filter));
  document.addEventListener('play', event => {
    document.querySelectorAll('audio').forEach(each => { if (each !== event.target) each.pause(); });
  }, true);
  filter();
})();
"""
