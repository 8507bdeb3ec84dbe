#pragma once

#include <cstdlib>
#include <string>

#include <dlfcn.h>

namespace rossby::cuda {

/// A library of the CUDA toolkit, loaded at first use, because runs on CPUs do not need its hundreds of MiB.
/// It is never closed: objects that it registered with the CUDA runtime would outlive its code.
class Library {
 public:
  /// `name` is that of lib<name>.so.<major>.
  Library(const std::string& name, int major) {
    file_ = "lib" + name + ".so." + std::to_string(major);
    const char* home = std::getenv("CUDA_HOME");
    handle_ = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    const std::string at = std::string(home ? home : "/usr/local/cuda") + "/lib64/" + file_;
    if (!handle_) handle_ = ::dlopen(at.c_str(), RTLD_NOW | RTLD_LOCAL);
    complete_ = handle_ != nullptr;
  }

  template <class F>
  void find(F& function, const char* name) {
    if (!handle_) return;
    function = reinterpret_cast<F>(::dlsym(handle_, name));
    complete_ = complete_ && function;
  }
  /// True if the library and all requested symbols were found.
  [[nodiscard]] bool complete() const { return complete_; }
  /// The library's file name.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::string file_;
  void* handle_ = nullptr;
  bool complete_ = false;
};

}  // namespace rossby::cuda
