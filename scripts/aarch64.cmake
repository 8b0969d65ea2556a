# Toolchain file: Debian's cross compiler, the arm64 libraries that scripts/aarch64-sysroot.sh unpacked beside the build tree,
# and qemu-user to run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu")

get_filename_component(DCTMS_SYSROOT "${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot" ABSOLUTE)
set(CMAKE_FIND_ROOT_PATH "${DCTMS_SYSROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${DCTMS_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${DCTMS_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
