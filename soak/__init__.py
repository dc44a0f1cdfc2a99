"""Many clients with bad manners, an upstream with bad days, one gateway: nothing may be lost.

``plan`` draws what each exchange will be, ``upstream`` and ``client`` act it out on either side of
a gateway started as ``python -m gateway``, and ``__main__`` judges.  Run it as ``scripts/soak``.
"""
