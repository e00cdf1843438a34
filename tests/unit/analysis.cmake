# The Python package analysis/ and the page of `shoal report`.  Skipped where pandas or matplotlib is missing.
shoal_add_pytest(unit.analysis.tables FILE unit/test_analysis.py LABELS unit noasan TIMEOUT 120)
shoal_add_pytest(unit.analysis.report FILE unit/test_report.py TESTS numbers page damaged energy predicted missing apart words refusals installed LABELS unit noasan TIMEOUT 300)
# In headless Chromium; skipped where there is none.
shoal_add_pytest(unit.analysis.browser FILE unit/test_report.py TESTS browser print LABELS unit noasan TIMEOUT 300)
