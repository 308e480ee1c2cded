# Which files libedgert consists of on this processor, and what each needs beyond the common flags.
file(GLOB EDGERT_SOURCES CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/base/*.c src/bundle/*.c src/kernels/*.c
     src/backends/cuda/*.c src/session/*.c)
list(APPEND EDGERT_SOURCES src/platform/cache.c src/platform/clock.c src/platform/cores.c src/platform/cpu.c src/platform/file.c
     src/platform/pages.c src/platform/sha256.c src/platform/thread.c src/kernels/simd/i8-scalar.c
     src/kernels/simd/i8-select.c src/kernels/simd/select.c src/kernels/simd/simd-scalar.c)

# edgert_isa_source(file flags...): a source that only runs where the processor has what the flags ask for.
macro(edgert_isa_source file)
  list(APPEND EDGERT_SOURCES ${file})
  set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS ${ARGN})
endmacro()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  edgert_isa_source(src/platform/sha256-x86.c -msha -msse4.1)
  edgert_isa_source(src/kernels/simd/i8-sse2.c -ffp-contract=off)
  edgert_isa_source(src/kernels/simd/i8-avx2.c -mavx2)
  edgert_isa_source(src/kernels/simd/i8-vnni.c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
                    -mprefer-vector-width=512)
  edgert_isa_source(src/kernels/simd/simd-sse2.c -ffp-contract=fast)
  edgert_isa_source(src/kernels/simd/simd-avx2.c -ffp-contract=fast -mavx2 -mfma -mf16c)
  edgert_isa_source(src/kernels/simd/simd-avx512.c -ffp-contract=fast -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
                    -mf16c -mprefer-vector-width=512)
  edgert_isa_source(src/kernels/simd/simd-avx512bf16.c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
                    -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  edgert_isa_source(src/platform/sha256-arm.c -mcpu=generic+crypto)
  edgert_isa_source(src/kernels/simd/i8-neon.c -ffp-contract=off)
  edgert_isa_source(src/kernels/simd/simd-neon.c -ffp-contract=fast)
else()
  message(FATAL_ERROR "edgert runs on x86_64 and aarch64, not on ${CMAKE_SYSTEM_PROCESSOR}")
endif()
