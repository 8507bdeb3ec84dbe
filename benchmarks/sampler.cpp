#include "benchmarks/sampler.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <sys/time.h>
#include <ucontext.h>

#include "rossby/base/error.hpp"

namespace rossby::bench {
namespace {

constexpr std::size_t capacity = std::size_t{1} << 18;

// A signal handler has no arguments of its own, so it writes to a fixed place.
std::atomic<std::uintptr_t*> sample_places{nullptr};
std::atomic<std::size_t> sample_count{0};

extern "C" void rossby_bench_sample(int, siginfo_t*, void* context) {
  const auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  std::uintptr_t place = 0;
#if defined(__x86_64__)
  place = static_cast<std::uintptr_t>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
  place = machine->pc;
#else
  (void)machine;
#endif
  std::uintptr_t* places = sample_places.load();
  if (!places || place == 0) return;
  const std::size_t at = sample_count.fetch_add(1);
  if (at < capacity) places[at] = place;
}

void set_timer(long microseconds) {
  itimerval timer{};
  timer.it_interval.tv_usec = timer.it_value.tv_usec = microseconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

/// Returns the functions of an executable file by address, from its full symbol table, including static ones.
std::map<std::uintptr_t, std::string> symbols_of(const char* path) {
  std::map<std::uintptr_t, std::string> symbols;
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (content.size() < sizeof(Elf64_Ehdr)) return symbols;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(content.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(content.data() + header->e_shoff);
  for (int s = 0; s < header->e_shnum; ++s) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const auto* symbol = reinterpret_cast<const Elf64_Sym*>(content.data() + sections[s].sh_offset);
    const char* names = content.data() + sections[sections[s].sh_link].sh_offset;
    for (std::size_t i = 0; i < sections[s].sh_size / sizeof(Elf64_Sym); ++i)
      if (ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC && symbol[i].st_value != 0)
        symbols.emplace(symbol[i].st_value, names + symbol[i].st_name);
  }
  return symbols;
}

/// "void rossby::cpu::f<float>(…) [clone ._omp_fn.0]" → "cpu::f<float>".
std::string readable(const std::string& symbol) {
  const std::string mangled = symbol.substr(0, symbol.find('.'));
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || !text) return symbol.substr(0, 72);
  std::string name = text.get();
  // Parameters begin at the first '(' outside template arguments, except in "(anonymous namespace)".
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] != '(' || depth > 0 || name.compare(i, 11, "(anonymous ") == 0) continue;
    name.resize(i);
    break;
  }
  for (const std::string_view drop : {"(anonymous namespace)::", "rossby::", "void "})
    for (std::size_t at = name.find(drop); at != std::string::npos; at = name.find(drop))
      name.erase(at, drop.size());
  return name;
}

}  // namespace

Sampler::Sampler() : places_(capacity) {
  require(sample_places.load() == nullptr, "one sampler at a time");
  sample_count = 0;
  sample_places = places_.data();
  struct sigaction action {};
  action.sa_sigaction = rossby_bench_sample;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
}

Sampler::~Sampler() {
  stop();
  std::signal(SIGPROF, SIG_IGN);
  sample_places = nullptr;
}

void Sampler::start() {
  set_timer(1000);
}

void Sampler::stop() {
  set_timer(0);
}

std::size_t Sampler::samples() const {
  return std::min(sample_count.load(), capacity);
}

std::vector<FunctionShare> Sampler::functions() const {
  const auto own = symbols_of("/proc/self/exe");
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&set_timer), &self);
  std::map<std::string, std::size_t> counts;
  for (std::size_t i = 0; i < samples(); ++i) {
    Dl_info info{};
    const bool known = dladdr(reinterpret_cast<const void*>(places_[i]), &info) != 0 && info.dli_fname;
    std::string name = "elsewhere";
    if (known && info.dli_fbase == self.dli_fbase) {
      // Addresses in the file start at 0 if the program is position-independent.
      auto at = own.upper_bound(places_[i] - reinterpret_cast<std::uintptr_t>(self.dli_fbase));
      if (at == own.begin()) at = own.upper_bound(places_[i]);
      if (at != own.begin()) name = readable(std::prev(at)->second);
    } else if (known) {
      const std::string path = info.dli_fname;
      name = path.substr(path.rfind('/') + 1) + ": " +
             (info.dli_sname ? readable(info.dli_sname) : "not exported");
    }
    ++counts[name];
  }
  std::vector<FunctionShare> list;
  for (const auto& [name, count] : counts)
    list.push_back({name, static_cast<double>(count) / static_cast<double>(samples())});
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  return list;
}

}  // namespace rossby::bench
