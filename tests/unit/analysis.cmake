# The Python package analysis/ and the page of `shoal report`.  Skipped where pandas or matplotlib is missing.
shoal_add_pytest(unit.analysis.tables FILE unit/test_analysis.py LABELS unit noasan TIMEOUT 120)
