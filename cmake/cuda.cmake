# The cuda-* presets come here. This version computes on the CPU alone: the toolkit is looked for so that these presets
# configure and build on every machine, and the outcome is said in one line. No target depends on it.
if(EBB_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    message(STATUS "CUDA: found ${CMAKE_CUDA_COMPILER}; this version has no GPU back end yet, so it is not used")
  else()
    message(STATUS "CUDA: no toolkit found; this version builds for the CPU alone in any case")
  endif()
endif()
