# A backend whose memory pretends to be elsewhere: veil.h.  `shoal.veiled` is the program with it.
add_library(veil STATIC veil/veil.c veil/wrapper.c)
target_include_directories(veil PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(veil PUBLIC shoal_tensor PRIVATE shoal_warnings)
add_executable(shoal.veiled ${PROJECT_SOURCE_DIR}/src/cli/main.c veil/wrap.c)
target_link_libraries(shoal.veiled PRIVATE veil shoal_cli shoal_warnings)
target_link_options(shoal.veiled PRIVATE LINKER:--wrap=shoal_backend_open_as LINKER:--wrap=shoal_cpu_set_winograd)
