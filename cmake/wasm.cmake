# Compiles for WebAssembly with Debian's clang-19, lld-19, wasi-libc, libc++-19-dev-wasm32 and
# libclang-rt-19-dev-wasm32:
#
#   cmake -S . -B build/wasm -DCMAKE_TOOLCHAIN_FILE=cmake/wasm.cmake -DLITE_PYTHON=OFF
#   cmake --build build/wasm --target lite_wasm
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_AR llvm-ar-19)
set(CMAKE_RANLIB llvm-ranlib-19)
# What every engine has that has SIMD.
set(CMAKE_CXX_FLAGS_INIT "-msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -mmutable-globals -fno-exceptions")
# The last -O decides whether clang calls a wasm-opt that it finds, and an old one breaks SIMD: without one, it does not.
# The stack stands first in memory, so that one that is full is a trap.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-O0 -Wl,--stack-first -Wl,-z,stack-size=1048576 -Wl,--gc-sections -Wl,--strip-all")
# There are no threads, and nothing to look for.
set(CMAKE_HAVE_PTHREAD_H TRUE)
set(CMAKE_HAVE_LIBC_PTHREAD TRUE)
