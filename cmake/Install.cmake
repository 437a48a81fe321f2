# Install rules, which the wheel is made by (./dev wheel, pip install). Everything lies inside of the
# package laneway, so that it works wherever the package does:
#   laneway/bin      the programs, started through commands of the same names
#   laneway/lib      the shared objects, and the system's libraries that they need
#   laneway/include  laneway.h and laneway.hpp
#   laneway/share    the unit file for systemd
# torch is found beside the package: laneway/../torch/lib.
set(_programs lanewayd laneway-broker laneway-trace laneway-simulate)
set(_libraries laneway_client)
if(TARGET laneway_embedded)
  list(APPEND _programs laneway-worker)
  list(APPEND _libraries laneway_embedded)
endif()
if(TARGET laneway_cuda)
  list(APPEND _libraries laneway_cuda)
endif()
set_target_properties(${_programs} PROPERTIES
  INSTALL_RPATH "$ORIGIN/../lib:$ORIGIN/../../torch/lib")
set_target_properties(${_libraries} PROPERTIES
  INSTALL_RPATH "$ORIGIN:$ORIGIN/../../torch/lib")
if(SKBUILD)
  # DT_RPATH, not DT_RUNPATH: it also holds for what our libraries bring along (libzmq's libsodium).
  # Only in a wheel: it comes before LD_LIBRARY_PATH, which tests use.
  set_property(TARGET ${_programs} ${_libraries} APPEND PROPERTY
               LINK_OPTIONS "LINKER:--disable-new-dtags")
endif()

install(TARGETS ${_programs} RUNTIME DESTINATION laneway/bin COMPONENT wheel)
install(TARGETS ${_libraries} LIBRARY DESTINATION laneway/lib COMPONENT wheel)

# In the checkout laneway.hpp includes laneway.h from the repository root, in the wheel from beside it.
file(READ service/api/laneway.hpp _header)
string(REPLACE "#include \"service/api/laneway.h\"" "#include \"laneway.h\"" _header "${_header}")
file(CONFIGURE OUTPUT include/laneway.hpp CONTENT "${_header}" @ONLY)
install(FILES service/api/laneway.h ${CMAKE_CURRENT_BINARY_DIR}/include/laneway.hpp
        DESTINATION laneway/include COMPONENT wheel)
install(FILES docs/lanewayd.service
        DESTINATION laneway/share COMPONENT wheel)
if(SKBUILD)
  install(CODE "execute_process(COMMAND ${LANEWAY_PYTHON} ${PROJECT_SOURCE_DIR}/tools/wheel/bundle.py
                                        \"\${CMAKE_INSTALL_PREFIX}/laneway\"
                                COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT wheel)
endif()
