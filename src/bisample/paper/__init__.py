"""The paper's experiments: data, contestants, runs, theory, claims, figures and a report.

`bisample paper` runs them all. An experiment is one declaration in `experiments`, a mechanism one
line in `contestants`, a data set one line in `data`. Nothing in the core imports this package.
"""
