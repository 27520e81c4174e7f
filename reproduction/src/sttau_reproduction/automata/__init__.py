"""Automata: grammars and stochastic languages, learned from strings and extracted from networks."""
