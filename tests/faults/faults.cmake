# The faults that hit users of neighbouring systems, provoked on purpose.
include(${CMAKE_CURRENT_LIST_DIR}/ckpt.cmake)
