"""The project's own measurements; run them as ``scripts/bench``.

``stub`` is the upstream and ``load`` the clients, both small enough not to be the bottleneck;
``systems`` starts what is compared, ``measures`` says what is measured, ``__main__`` prints the
table.  CPU time and ratios in one run are what counts: machines are noisy.
"""
