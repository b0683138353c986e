# GPU code: each src/<folder>/cuda/<name>.cu becomes a fat binary that is embedded in the library and loaded by the driver at
# run time, so that no CUDA library is linked (docs/decisions/0016-cuda-at-run-time.md).
#   EBB_CUDA = AUTO  when ./start has brought a compiler into build/cuda (the default)
#            = ON    also with a toolkit that is found on the PATH; without any, a build for the CPU
#            = OFF   never
set(EBB_CUDA AUTO CACHE STRING "GPU code: AUTO (a compiler in build/cuda), ON (also one on the PATH), OFF")
# 75 to 120 as machine code, and PTX of the last for cards to come. One of them, for instance 90a, is enough on one machine.
set(EBB_CUDA_ARCHITECTURES 75 80 86 89 90a 100 120 ptx120 CACHE STRING "Compute capabilities to compile GPU code for")

set(EBB_NVCC "")
if(NOT EBB_CUDA STREQUAL "OFF")
  set(own_nvcc ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/cu13/bin/nvcc)
  if(EXISTS ${own_nvcc})
    set(EBB_NVCC ${own_nvcc})
  elseif(EBB_CUDA STREQUAL "ON")
    find_program(EBB_NVCC_ON_PATH nvcc PATHS /usr/local/cuda/bin)
    if(EBB_NVCC_ON_PATH)
      execute_process(COMMAND ${EBB_NVCC_ON_PATH} --version OUTPUT_VARIABLE said ERROR_QUIET)
      if(said MATCHES "release ([0-9]+)\\." AND CMAKE_MATCH_1 GREATER_EQUAL 13)  # the first that knows all of them
        set(EBB_NVCC ${EBB_NVCC_ON_PATH})
      endif()
    endif()
  endif()
endif()
if(EBB_NVCC)
  message(STATUS "CUDA: GPU code for ${EBB_CUDA_ARCHITECTURES} with ${EBB_NVCC}")
elseif(NOT EBB_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: no compiler; this build is for the CPU alone")
endif()

# ebb_gpu_code(<folder> a.cu ...): defines ebb::<folder>::cuda::gpu_code() in the library of the folder, empty without a compiler.
function(ebb_gpu_code folder)
  set(entries "")
  set(blobs "")
  set(fatbins "")
  if(EBB_NVCC)
    set(targets "")
    foreach(architecture IN LISTS EBB_CUDA_ARCHITECTURES)
      if(architecture MATCHES "^ptx(.*)$")
        list(APPEND targets -gencode arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
      else()
        list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
      endif()
    endforeach()
    foreach(source IN LISTS ARGN)
      get_filename_component(name ${source} NAME_WE)
      set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
      add_custom_command(OUTPUT ${fatbin}
        COMMAND ${EBB_NVCC} -std=c++17 -O3 -Werror all-warnings -Xptxas -Werror -ccbin ${CMAKE_CXX_COMPILER}
                -I ${PROJECT_SOURCE_DIR}/src ${targets} -MD -MF ${fatbin}.d -MT ${fatbin} -fatbin
                -o ${fatbin} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${EBB_NVCC}
        DEPFILE ${fatbin}.d
        COMMENT "GPU code: ${folder}/${source}" VERBATIM)
      list(APPEND fatbins ${fatbin})
      string(APPEND blobs "extern \"C\" const unsigned char ebb_gpu_${name}[];\n"
        "__asm__(\".pushsection .rodata\\n.balign 64\\n.global ebb_gpu_${name}\\nebb_gpu_${name}:\\n"
        ".incbin \\\"${fatbin}\\\"\\n.popsection\\n\");\n")
      string(APPEND entries "    {\"${name}\", ebb_gpu_${name}},\n")
    endforeach()
  endif()
  set(body "  return {};\n")
  if(entries)
    set(body "  static constexpr GpuCode kCode[] = {\n${entries}  };\n  return kCode;\n")
  endif()
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/gpu_code.cpp)
  file(CONFIGURE OUTPUT ${embedded} @ONLY CONTENT "#include \"${folder}/cuda/gpu_code.h\"\n
${blobs}
namespace ebb::${folder}::cuda {
std::span<const GpuCode> gpu_code() {
${body}}
}  // namespace ebb::${folder}::cuda
")
  set_source_files_properties(${embedded} PROPERTIES OBJECT_DEPENDS "${fatbins}")
  target_sources(ebb_${folder} PRIVATE ${embedded})
endfunction()
