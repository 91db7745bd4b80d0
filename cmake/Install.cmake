# Headers, libraries, command, pkg-config file, CMake package, machine, model and suite files, pages, examples.
include(CMakePackageConfigHelpers)

install(TARGETS shingle shingle_static EXPORT shingleTargets)
install(FILES include/shingle.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET shingle_command)
  install(TARGETS shingle_command)
endif()

foreach(kind machines models bench/suites)
  file(GLOB data CONFIGURE_DEPENDS ${kind}/*.machine ${kind}/*.json ${kind}/*.txt)
  install(FILES ${data} DESTINATION ${CMAKE_INSTALL_DATADIR}/shingle/${kind})
endforeach()
# The header and the command name these pages; README links to them beside it.
install(FILES LICENSE README.md DESIGN.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(FILES results/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/results OPTIONAL)
install(FILES bench/peers.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench OPTIONAL)
install(FILES bench/lab/DIARY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench/lab OPTIONAL)
foreach(kind docs docs/pictures examples)
  file(GLOB data CONFIGURE_DEPENDS ${kind}/*.md ${kind}/*.svg ${kind}/*.c ${kind}/*.cpp ${kind}/*.h)
  install(FILES ${data} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${kind})
endforeach()

set(pc_private "")
foreach(library ${tile_libraries})
  if(IS_ABSOLUTE ${library})
    string(APPEND pc_private " ${library}")
  else()
    string(APPEND pc_private " -l${library}")
  endif()
endforeach()
string(APPEND pc_private " -pthread -lm")
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /p/${pc_folder} /p)
configure_file(cmake/shingle.pc.in shingle.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/shingle.pc DESTINATION ${pc_folder})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/shingle)
install(EXPORT shingleTargets NAMESPACE shingle:: DESTINATION ${package_folder})
configure_package_config_file(cmake/shingleConfig.cmake.in shingleConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(shingleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/shingleConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/shingleConfigVersion.cmake DESTINATION ${package_folder})
