"""Engines side by side on the same graphs: a file of cases, the measurement, the comparison.

``suite`` reads the file, ``contestants`` builds the plans, ``measure`` times them in turn,
``report`` puts the numbers together, ``statistics`` says what they mean.
"""
