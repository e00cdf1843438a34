shoal_add_test(unit.trace.record SOURCES unit/trace_record.c LINK shoal_trace LABELS unit)
shoal_add_test(unit.trace.kill SOURCES unit/trace_kill.c LINK shoal_trace LABELS unit)
shoal_add_test(unit.trace.split SOURCES unit/trace_split.c LINK shoal_trace LABELS unit)
