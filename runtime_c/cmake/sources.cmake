# Which files libedgert consists of on this processor, and what each needs beyond the common flags.
file(GLOB EDGERT_SOURCES CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/base/*.c src/bundle/*.c src/kernels/*.c
     src/backends/cuda/*.c src/session/*.c)
list(APPEND EDGERT_SOURCES src/platform/cache.c src/platform/clock.c src/platform/code.c src/platform/cores.c src/platform/cpu.c src/platform/file.c
     src/platform/sha256.c src/platform/thread.c src/kernels/simd/i8-scalar.c
     src/kernels/simd/i8-select.c src/kernels/simd/select.c src/kernels/simd/simd-scalar.c)

# edgert_isa_source(file flags...): a source that only runs where the processor has what the flags ask for.
# Accesses by null pointers and beyond objects are what the sanitizer of addresses sees, too: they are checked once.
macro(edgert_isa_source file)
  list(APPEND EDGERT_SOURCES ${file})
  set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS ${ARGN})
  if(EDGERT_SANITIZE)
    set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=null,object-size)
  endif()
endmacro()

# edgert_newer_isa_source(name file flags...): the same where the compiler knows the flags; EDGERT_HAS_<name> says whether.
include(CheckCCompilerFlag)
macro(edgert_newer_isa_source name file)
  string(REPLACE ";" " " flags "${ARGN}")
  check_c_compiler_flag("${flags}" EDGERT_COMPILES_${name})
  if(EDGERT_COMPILES_${name})
    edgert_isa_source(${file} ${ARGN})
  endif()
  set_property(SOURCE src/kernels/simd/i8-select.c src/kernels/simd/select.c APPEND PROPERTY COMPILE_DEFINITIONS
               EDGERT_HAS_${name}=$<BOOL:${EDGERT_COMPILES_${name}}>)
endmacro()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  edgert_isa_source(src/platform/sha256-x86.c -msha -msse4.1)
  edgert_isa_source(src/kernels/simd/i8-sse2.c -ffp-contract=off)
  edgert_isa_source(src/kernels/simd/i8-avx2.c -mavx2)
  edgert_newer_isa_source(AVXVNNI src/kernels/simd/i8-avxvnni.c -mavx2 -mavxvnni)
  edgert_isa_source(src/kernels/simd/i8-vnni.c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
                    -mprefer-vector-width=512)
  edgert_isa_source(src/kernels/simd/simd-sse2.c -ffp-contract=fast)
  edgert_isa_source(src/kernels/simd/simd-avx2.c -ffp-contract=fast -mavx2 -mfma -mf16c)
  edgert_isa_source(src/kernels/simd/simd-avx512.c -ffp-contract=fast -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
                    -mf16c -mbmi2 -mprfchw -mprefer-vector-width=512)
  edgert_isa_source(src/kernels/simd/simd-avx512bf16.c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma
                    -mprefer-vector-width=512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  edgert_isa_source(src/platform/sha256-arm.c -mcpu=generic+crypto)
  edgert_isa_source(src/kernels/simd/i8-neon.c -ffp-contract=off)
  check_c_compiler_flag(-march=armv8.2-a+dotprod EDGERT_TAKES_MARCH) # zig does not
  if(EDGERT_TAKES_MARCH)
    set(armv8_2 -march=armv8.2-a)
  else()
    set(armv8_2 -mcpu=generic)
  endif()
  edgert_isa_source(src/kernels/simd/i8-dotprod.c -ffp-contract=off ${armv8_2}+dotprod)
  edgert_newer_isa_source(I8MM src/kernels/simd/i8-i8mm.c -ffp-contract=off ${armv8_2}+dotprod+i8mm)
  edgert_isa_source(src/kernels/simd/simd-neon.c -ffp-contract=fast)
else()
  message(FATAL_ERROR "edgert runs on x86_64 and aarch64, not on ${CMAKE_SYSTEM_PROCESSOR}")
endif()
