"""Real Anthropic clients, through a real gateway, in every way a request can meet the line.

``scripts/interop`` runs it.  Read ``scenarios`` first, then ``trial``: the story of one client in
one scenario.  ``registry`` lists the clients, ``clients/`` holds one short script for each.
"""
