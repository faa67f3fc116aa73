"""What the IREE engine does with the sample problems: declined, compiled, run, emulated.

``trials`` are the cases, ``compilation`` and ``emulation`` try one, ``pool`` works on many,
``record`` keeps what is found and ``table`` makes the support page of it.
"""
