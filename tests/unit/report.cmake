shoal_add_test(unit.report.split SOURCES unit/report_split.c LINK shoal_report LABELS unit)
shoal_add_test(unit.report.trace SOURCES unit/report_trace.c LINK shoal_report LABELS unit)
shoal_add_test(unit.report.ckpt SOURCES unit/report_ckpt.c LINK shoal_report ARGS ${SHOAL_PYTHON} LABELS unit)
