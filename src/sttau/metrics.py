"""The metrics as torchmetrics classes: fed batch by batch, merged over processes, the same numbers as the functions.

Needs the extra: ``pip install 'sttau[torchmetrics]'``. Nothing else in the library imports this file.
"""
