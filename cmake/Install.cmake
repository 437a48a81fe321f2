# Install rules, which the wheel is made by (./dev wheel, pip install). Everything lies inside of the
# package laneway, so that it works wherever the package does:
#   laneway/bin             the programs, started through commands of the same names
#   laneway/lib             the shared objects, and the system's libraries that they need
#   laneway/lib/torch-2.11  the embedded library, the worker and the plugin for that torch, which is
#                           found beside the package: laneway/../torch/lib
#   laneway/include         laneway.h, laneway.hpp and laneway_policy.hpp
#   laneway/share           the unit file for systemd
# Component "torch" is the third of them, component "wheel" the rest.
set(_programs lanewayd laneway-broker laneway-trace laneway-simulate)
if(TARGET laneway_embedded)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" _minor "${TORCH_WHEEL_VERSION}")
  set(_torch_targets laneway_embedded laneway-worker)
  if(TARGET laneway_cuda)
    list(APPEND _torch_targets laneway_cuda)
  endif()
  set_target_properties(${_torch_targets} PROPERTIES
    INSTALL_RPATH "$ORIGIN/..:$ORIGIN/../../../torch/lib")
  install(TARGETS ${_torch_targets}
          RUNTIME DESTINATION laneway/lib/torch-${_minor} COMPONENT torch
          LIBRARY DESTINATION laneway/lib/torch-${_minor} COMPONENT torch)
  add_custom_target(laneway_torch_binaries DEPENDS ${_torch_targets})
endif()
set_target_properties(${_programs} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
set_target_properties(laneway_client PROPERTIES INSTALL_RPATH "$ORIGIN")
if(SKBUILD)
  # DT_RPATH, not DT_RUNPATH: it also holds for what our libraries bring along (libzmq's libsodium).
  # Only in a wheel: it comes before LD_LIBRARY_PATH, which tests use, and by which a worker is told
  # of a torch that is not beside the package.
  set_property(TARGET ${_programs} laneway_client APPEND PROPERTY
               LINK_OPTIONS "LINKER:--disable-new-dtags")
endif()

# Everything that is installed, and nothing else.
add_custom_target(laneway_wheel DEPENDS ${_programs} laneway_client ${_torch_targets})
install(TARGETS ${_programs} RUNTIME DESTINATION laneway/bin COMPONENT wheel)
install(TARGETS laneway_client LIBRARY DESTINATION laneway/lib COMPONENT wheel)

# In the checkout laneway.hpp includes laneway.h from the repository root, in the wheel from beside it.
file(READ service/api/laneway.hpp _header)
string(REPLACE "#include \"service/api/laneway.h\"" "#include \"laneway.h\"" _header "${_header}")
file(CONFIGURE OUTPUT include/laneway.hpp CONTENT "${_header}" @ONLY)
install(FILES service/api/laneway.h ${CMAKE_CURRENT_BINARY_DIR}/include/laneway.hpp
              plugin/laneway_policy.hpp
        DESTINATION laneway/include COMPONENT wheel)
install(FILES docs/lanewayd.service
        DESTINATION laneway/share COMPONENT wheel)
if(SKBUILD)
  install(CODE "execute_process(COMMAND ${LANEWAY_PYTHON} ${PROJECT_SOURCE_DIR}/tools/wheel/bundle.py
                                        \"\${CMAKE_INSTALL_PREFIX}/laneway\" ${LANEWAY_ZEROMQ}
                                COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT wheel)
endif()
