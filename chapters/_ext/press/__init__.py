"""The book in other forms, made from its built pages: Markdown and JSON for machines, PDF and EPUB for paper.

- `pages.py` reads a built page: its article, its title, its place among the chapters. All forms begin there.
- `markdown.py` writes a page as Markdown; `machines.py`, `claims.py` and `SKILL.md` are what else a program can read.
- `sheets.py` sets a page for reading without scripts; `pdf.py` and `epub.py` bind such pages.

`make book` writes the forms for machines, by the extension `machines`. The others are programs: `make pdf`, `make epub`
and `make sheet`.
"""
