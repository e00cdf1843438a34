shoal_add_test(unit.report.split SOURCES unit/report_split.c LINK shoal_report LABELS unit)
shoal_add_test(unit.report.trace SOURCES unit/report_trace.c LINK shoal_report LABELS unit)
shoal_add_pytest(unit.trace.golden FILE unit/test_trace_golden.py LABELS unit noasan)
shoal_add_pytest(unit.trace.export FILE unit/test_trace_export.py LABELS unit noasan)
shoal_add_test(unit.report.ckpt SOURCES unit/report_ckpt.c LINK shoal_report ARGS ${SHOAL_PYTHON} LABELS unit)
# Each allocation of Shoal fails in turn (unit/no_memory.h).
shoal_add_test(unit.report.memory SOURCES unit/report_memory.c LINK shoal_report
               ARGS ${PROJECT_SOURCE_DIR}/checkpoints/golden/v1-run.h5 LABELS unit TIMEOUT 300)
target_link_options(unit.report.memory PRIVATE LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign
                                               LINKER:--wrap=strdup,--wrap=strndup)
