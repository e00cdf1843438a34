# `cmake --install` installs the program, the Python package that `shoal report` runs, run files and batch scripts to copy, the
# documentation, and a modulefile for MODULEPATH.  The modulefile contains the prefix given at configure time (CMAKE_INSTALL_PREFIX).
install(TARGETS shoal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal/jobs)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY analysis/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal/analysis PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} PATTERN made EXCLUDE)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
configure_file(${PROJECT_SOURCE_DIR}/modules/shoal.in ${PROJECT_BINARY_DIR}/modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/shoal RENAME ${PROJECT_VERSION})
