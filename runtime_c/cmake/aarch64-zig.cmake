# Toolchain file: aarch64 Linux by the compiler of the Python package "ziglang". The library needs glibc 2.27; with
# -DEDGERT_ZIG_TARGET=aarch64-linux-musl programs are static, so that tests run under qemu-user without another libc.
#   cmake -S runtime_c -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-zig.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(EDGERT_ZIG_TARGET aarch64-linux-gnu.2.27 CACHE STRING "What zig compiles for")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EDGERT_ZIG_TARGET)
find_program(PYTHON_ZIG python-zig REQUIRED)
find_program(QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
set(CMAKE_C_COMPILER ${PYTHON_ZIG} cc)
set(CMAKE_C_COMPILER_TARGET ${EDGERT_ZIG_TARGET})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
if(QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64})
endif()
