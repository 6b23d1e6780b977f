// The one table of FERRULE_* variables. Adding a variable is adding a row here; docs/settings.md is generated
// from it (build/.../bin/settings_docs --write).
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

namespace ferrule {

enum class SettingType { text, flag, count, bytes, duration, choice };

struct SettingRow {
  std::string_view name;
  SettingType type;
  std::string_view default_text;
  /// Choices separated by '|' (choice), or ">0" (count, bytes, duration).
  std::string_view limits;
  std::string_view meaning;
  /// A bad value is an error, except where the setting only concerns what people see.
  bool bad_value_is_error = true;
  /// The value is never shown.
  bool is_secret = false;
};

inline constexpr SettingRow kSettingRows[] = {
    {"FERRULE_DEBUG", SettingType::choice, "WARN", "WARN|INFO|TRACE",
     "How much is logged. WARN: only what somebody should act on. INFO: what was chosen, and why. TRACE: "
     "every collective.",
     false},
    {"FERRULE_DEBUG_FILE", SettingType::text, "", "",
     "File for log lines instead of stderr; `%h` is the host name, `%p` the process id."},
    {"FERRULE_TIMEOUT", SettingType::duration, "60s", ">0",
     "Deadline of a collective, and of forming a communicator, where the call gives none."},
    {"FERRULE_CODEC", SettingType::text, "none", "",
     "Codec of float sums and averages where the call names none, e.g. `int4:block=128`. `none` is exact. "
     "`auto:int4` and the like: only where that is expected to be faster."},
    {"FERRULE_ALGO", SettingType::text, "auto", "",
     "Algorithm where the call names none, e.g. `direct`, `ring`, `tree`."},
    {"FERRULE_TOPOLOGY", SettingType::text, "", "",
     "Which ranks are near each other, for `hierarchical`: `2x4` is 2 nodes of 4 ranks, `1+3` nodes of 1 and "
     "3; "
     "docs/schedules.md has more. Empty: the ranks of a host are a node."},
    {"FERRULE_TRANSPORT", SettingType::text, "auto", "", "Transport, e.g. `ucx`, `loopback`."},
    {"FERRULE_LINK", SettingType::text, "", "",
     "Throttles the wire to a link, e.g. `1gbit,1ms`. Empty: as fast as it goes."},
    {"FERRULE_FAULT", SettingType::text, "", "",
     "Planted faults for tests; see docs/errors.md. Empty: none."},
    {"FERRULE_SLICE", SettingType::bytes, "0", "",
     "Payload of one message. 0: what the transport is fastest with."},
    {"FERRULE_SLICES_IN_FLIGHT", SettingType::count, "0", "",
     "Slices of a collective under way at a time. 0: what the transport asks for, and more where latency is "
     "long."},
    {"FERRULE_TUNING", SettingType::text, "measure", "",
     "What the choice of algorithm, of slices in flight and of `auto:` codecs goes by. `measure`: figures "
     "taken when a "
     "communicator is made (some milliseconds). `file:PATH`: figures that ferrule-probe has saved. "
     "`builtin`: "
     "constants, for choices that are the same in every run."},
    {"FERRULE_THREADS", SettingType::count, "1", ">0",
     "Threads that encode and decode, for each communicator: more than one pays where a rank has cores to "
     "spare."},
    {"FERRULE_TRACE", SettingType::text, "", "",
     "File for a trace of encode, wire, decode and wait, which Perfetto (ui.perfetto.dev) shows; `%r` is the "
     "rank, "
     "`%h` the host. Empty: none."},
    {"FERRULE_CHECKSUM", SettingType::flag, "0", "",
     "Checksum payloads too, not only message headers. Costs a pass over the wire bytes."},
    {"FERRULE_MIN_BYTES", SettingType::bytes, "16K", "",
     "Tensors smaller than this stay exact under a codec that the call did not name itself."},
    {"FERRULE_SIMD", SettingType::text, "", "",
     "Instruction set of the codecs, e.g. `scalar`. Empty: the best that this machine has."},
    {"FERRULE_NCCL_LIBRARY", SettingType::text, "", "",
     "The NCCL to use, as a file. Empty: the one that the process has loaded, the system's, a Python wheel's "
     "or "
     "the toolkit's, whichever is found first."},
    {"FERRULE_UCX_TLS", SettingType::text, "", "",
     "UCX transports that Ferrule's own context may use: `shm`, `tcp`, or a value of UCX_TLS. Empty: UCX's "
     "choice (UCX_TLS)."},
    {"FERRULE_SOCKET_IFNAME", SettingType::text, "", "",
     "Network interfaces: prefixes separated by commas (`eth,ib`), `=eth0` for the exact name, `^docker,lo` "
     "for all but. Empty: the one that routes to the rendezvous."},
    {"FERRULE_PORT_RANGE", SettingType::text, "", "",
     "Ports that Ferrule may listen on, e.g. `20000-20015`. Empty: see docs/rendezvous.md."},
    {"FERRULE_RENDEZVOUS", SettingType::text, "", "",
     "Where ranks meet: `tcp://host:port` or `file:///path`. Empty: from the launcher."},
    {"FERRULE_JOB_SECRET", SettingType::text, "", "",
     "Secret of the job, the same on all ranks, at least 16 characters: ranks that do not know it are "
     "refused. Empty: no authentication. See docs/security.md.",
     true, true},
    {"FERRULE_JOB_SECRET_FILE", SettingType::text, "", "",
     "File that holds the job's secret, instead of FERRULE_JOB_SECRET; users other than its owner and group "
     "must have no access to it."},
    {"FERRULE_DISABLE", SettingType::flag, "0", "",
     "1: compression is off: every codec becomes `none`, and `ferrule.torch` leaves models as they are."},
    {"FERRULE_STALL_WARN", SettingType::duration, "10s", "",
     "A collective that waits longer than this for a peer says so at WARN. 0: never."},
    {"FERRULE_CHECK", SettingType::choice, "off", "off|identity|nonfinite|all",
     "`identity`: a hash of every result is compared across ranks, and the odd rank is named. `nonfinite`: a "
     "NaN "
     "or Inf is refused before it is sent, with rank, tensor and index. See docs/fault_tolerance.md."},
    {"FERRULE_MPI_MEASURE", SettingType::count, "0", "",
     "MPI preload: the first compressed call of every communicator, and then every n-th, is run a second "
     "time by "
     "MPI itself to measure its error; 0: none is."},
    {"FERRULE_MPI_SUMMARY", SettingType::choice, "all", "all|rank0|off",
     "MPI preload: who prints what was done, to stderr, at MPI_Finalize."},
};

inline constexpr std::size_t kSettingCount = std::size(kSettingRows);

/// The index of a row; only for names known when compiling, where an unknown name or a wrong type does not
/// compile.
consteval std::size_t setting_index(std::string_view name, SettingType type) {
  for (std::size_t i = 0; i < kSettingCount; ++i) {
    if (kSettingRows[i].name != name) continue;
    const bool is_text = type == SettingType::text && kSettingRows[i].type == SettingType::choice;
    if (kSettingRows[i].type != type && !is_text) throw "this setting has another type";
    return i;
  }
  throw "no such setting: add a row to kSettingRows";
}

/// The name of a setting of a type (text also names choices), checked by the compiler.
template <SettingType type>
class SettingName {
 public:
  consteval SettingName(const char* name)
      : index_(setting_index(name, type)) {}  // NOLINT: implicit on purpose
  constexpr std::size_t index() const { return index_; }
  constexpr const SettingRow& row() const { return kSettingRows[index_]; }

 private:
  std::size_t index_;
};

}  // namespace ferrule
