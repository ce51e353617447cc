// Carries the precompiled headers; see cmake/precompiled.cmake.
