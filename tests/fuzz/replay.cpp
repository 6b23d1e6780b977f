// Runs a fuzz target without libFuzzer: every file of the corpus, then a number of them changed at random.
// The same seed gives the same inputs on every machine. The input under way is written to <program>.crash
// when it ends the program, whether by a broken demand, a signal or a sanitizer; give that file as an
// argument to run it again.
//
//   fuzz_<target> [--runs N] [--seed N] [file or folder...]
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);
// Targets may have it: libFuzzer calls it once, at the start.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* count, char*** arguments);
// There only where the program is built with a sanitizer.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kMaxBytes = 4096;  // of a changed input, as libFuzzer's default
constexpr unsigned kLongestInputSeconds = 20;
constexpr rlim_t kMemoryBytes = rlim_t{2} << 30;

// Read by the handlers, so plain pointers.
const std::uint8_t* current_data = nullptr;
std::size_t current_bytes = 0;
std::array<char, 512> crash_path{};

void keep_current_input() {
  const int file = ::open(crash_path.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, current_data, current_bytes);
  ::close(file);
}

void on_signal(int signal) {
  keep_current_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void watch_for_death(const char* program) {
  std::snprintf(crash_path.data(), crash_path.size(), "%s.crash", program);
  std::signal(SIGABRT, on_signal);
  std::signal(SIGALRM, on_signal);
  if (__sanitizer_set_death_callback != nullptr) return __sanitizer_set_death_callback(keep_current_input);
  std::signal(SIGSEGV, on_signal);
  std::signal(SIGFPE, on_signal);
  // Sanitizers reserve far more address space than they use, so only without them.
  const rlimit limit{kMemoryBytes, kMemoryBytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

void run(const Bytes& input) {
  // A copy of its exact size on the heap: AddressSanitizer sees the first byte too far.
  const Bytes exact(input);
  current_data = exact.data();
  current_bytes = exact.size();
  ::alarm(kLongestInputSeconds);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  ::alarm(0);
}

// What libFuzzer does too, in small: bits, bytes, interesting numbers, pieces inserted, removed, copied.
class Mutator {
 public:
  Mutator(const std::vector<Bytes>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  Bytes next() {
    Bytes bytes = corpus_.empty() ? Bytes() : corpus_[below(corpus_.size())];
    for (std::size_t left = 1 + below(8); left > 0; --left) change(bytes);
    if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  void change(Bytes& bytes) {
    static constexpr std::uint8_t kInteresting[] = {0,    1,    2,   0x7e, 0x7f, 0x80, 0x81,
                                                    0xfe, 0xff, '0', '9',  ':',  ','};
    const std::size_t at = below(bytes.size() + 1);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t room = bytes.size() - at;
    switch (room == 0 ? 4 + below(3) : below(7)) {
      case 0:
        *place = static_cast<std::uint8_t>(*place ^ (1U << below(8)));
        return;
      case 1:
        *place = byte();
        return;
      case 2:
        std::fill_n(place, 1 + below(std::min<std::size_t>(room, 8)),
                    kInteresting[below(std::size(kInteresting))]);
        return;
      case 3:
        bytes.erase(place, place + static_cast<std::ptrdiff_t>(1 + below(std::min<std::size_t>(room, 32))));
        return;
      case 4:
        bytes.insert(place, 1 + below(16), kInteresting[below(std::size(kInteresting))]);
        return;
      case 5: {
        Bytes some(1 + below(16));
        std::generate(some.begin(), some.end(), [this] { return byte(); });
        bytes.insert(place, some.begin(), some.end());
        return;
      }
      default:
        insert_from_another(bytes, at);
    }
  }

  void insert_from_another(Bytes& bytes, std::size_t at) {
    if (corpus_.empty()) return;
    const Bytes& other = corpus_[below(corpus_.size())];
    const std::size_t first = below(other.size());
    const std::size_t count = below(std::min<std::size_t>(other.size() - first, 64) + 1);
    const auto from = other.begin() + static_cast<std::ptrdiff_t>(first);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), from,
                 from + static_cast<std::ptrdiff_t>(count));
  }

  const std::vector<Bytes>& corpus_;
  std::mt19937_64 random_;
};

void read_into(const fs::path& path, std::vector<Bytes>& corpus) {
  if (fs::is_directory(path)) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(),
              files.end());  // folders have no order of their own, and runs must be the same everywhere
    for (const fs::path& file : files) read_into(file, corpus);
    return;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

struct Options {
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  std::vector<Bytes> corpus;
};

Options read_options(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = arguments[i];
    if (word != "--runs" && word != "--seed") {
      read_into(arguments[i], options.corpus);
      continue;
    }
    std::uint64_t& number = word == "--runs" ? options.runs : options.seed;
    const std::string_view text = ++i < count ? arguments[i] : "";
    if (std::from_chars(text.data(), text.data() + text.size(), number).ptr == text.data()) {
      std::fprintf(stderr, "%s needs a number\n", arguments[i - 1]);
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = read_options(count, arguments);
  watch_for_death(arguments[0]);
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&count, &arguments);
  for (const Bytes& input : options.corpus) run(input);
  Mutator mutator(options.corpus, options.seed);
  for (std::uint64_t i = 0; i < options.runs; ++i) run(mutator.next());
  std::printf("%s: %zu files and %llu changed ones (seed %llu) without a finding\n", arguments[0],
              options.corpus.size(), static_cast<unsigned long long>(options.runs),
              static_cast<unsigned long long>(options.seed));
}
