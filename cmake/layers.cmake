# The layers: one folder of src/ is one CMake target, and may include only the folders named here.
# The `layers` test (tools/check_layers.py) holds every #include to this same table.
set(EBB_LAYERS base device format tokenizer memory kernels weights model engine cli)

set(EBB_LAYER_base      "")
set(EBB_LAYER_device    base)
set(EBB_LAYER_format    base)
set(EBB_LAYER_tokenizer base)
set(EBB_LAYER_memory    device base)
set(EBB_LAYER_kernels   device base)
set(EBB_LAYER_weights   format memory device base)
set(EBB_LAYER_model     weights memory kernels device base)
set(EBB_LAYER_engine    model weights tokenizer memory device base)
set(EBB_LAYER_cli       engine base)

# ebb_layer(<folder> SOURCES a.cpp ... [LINK libraries ...])
# Makes the static library ebb_<folder> from the sources of src/<folder> and links exactly what the table allows.
function(ebb_layer folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(ebb_${folder} STATIC ${ARG_SOURCES})
  target_include_directories(ebb_${folder} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(ebb_${folder} PRIVATE ebb_warnings)
  foreach(lower IN LISTS EBB_LAYER_${folder})
    target_link_libraries(ebb_${folder} PUBLIC ebb_${lower})
  endforeach()
  target_link_libraries(ebb_${folder} PUBLIC ${ARG_LINK})
endfunction()

# ebb_tests(<folder> SOURCES a_test.cpp ... [LINK libraries ...] [LABELS ...])
# One test program a folder of tests/, each GoogleTest case a CTest case.
function(ebb_tests folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(ebb_${folder}_tests ${ARG_SOURCES})
  target_include_directories(ebb_${folder}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(ebb_${folder}_tests PRIVATE EBB_VECTORS_DIR="${PROJECT_SOURCE_DIR}/tests/vectors")
  target_link_libraries(ebb_${folder}_tests PRIVATE ebb_warnings ${ARG_LINK} GTest::gtest_main)
  gtest_discover_tests(ebb_${folder}_tests
    DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
