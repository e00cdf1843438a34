# What `cmake --install` puts where: the program, the run files and batch scripts a user copies, the documents.
install(TARGETS shoal RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/shoal/jobs)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
