#pragma once

#include <cstdlib>
#include <string>

#include <dlfcn.h>

namespace rossby::cuda {

/// A library of the CUDA toolkit, looked for when it is first used: hundreds of MiB that a run on CPUs does
/// not need. It is never closed: what it registered with the runtime would outlive its code.
class Library {
 public:
  /// `name` of lib<name>.so.<major>.
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
  /// Whether it and all that was looked for is there.
  [[nodiscard]] bool complete() const { return complete_; }
  /// Name of its file.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::string file_;
  void* handle_ = nullptr;
  bool complete_ = false;
};

}  // namespace rossby::cuda
