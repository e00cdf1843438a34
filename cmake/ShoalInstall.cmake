# `cmake --install BUILD --prefix DIR` installs the program, the manual, completions, the Python package that `shoal report` runs, the
# documentation with run files and batch scripts to copy, and a modulefile for MODULEPATH.  `cmake --build BUILD --target uninstall`
# removes what the last installation from BUILD wrote.
#
# Everything finds its parts from where it lies, so the tree can be moved; only the modulefile names the prefix.
install(TARGETS shoal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# documents lie as in the source tree, so that their links work
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs jobs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES checkpoints/README.md checkpoints/format.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/checkpoints)
install(FILES analysis/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/analysis)
install(DIRECTORY analysis/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal/analysis PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} PATTERN made EXCLUDE)

# The modulefile is written while installing: only then is the prefix known.
configure_file(${PROJECT_SOURCE_DIR}/cmake/at-install.cmake.in ${PROJECT_BINARY_DIR}/at-install.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/at-install.cmake)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/shoal RENAME ${PROJECT_VERSION})

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -D BUILD=${PROJECT_BINARY_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
                  VERBATIM)
