#include "bench/probe/options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "codec/codec.hpp"
#include "ferrule/codec_spec.hpp"
#include "transport/decorators/link.hpp"
#include "transport/registry.hpp"

namespace ferrule::probe {
namespace {

constexpr int kMaxLocalRanks = 1024;
constexpr std::size_t kMaxCodecs = 16;

constexpr const char* kDescription =
    "Measures the links between ranks and the codecs on this machine, and says what Ferrule would choose: "
    "latency and "
    "bandwidth of every pair of ranks, codec rates, the parameters of the cost model, and for each size the "
    "algorithm, "
    "the slices in flight, and whether auto:CODEC compresses.";

constexpr const char* kFooter =
    "Ranks: with --ranks N the program starts N ranks on this machine itself. Without it, rank and size come "
    "from the "
    "launcher (torchrun, mpirun, srun, or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT).\n"
    "Exit code: 0 all right, 2 bad arguments, 3 a rank failed.\n\n"
    "Example: ferrule-probe --ranks 4 --link 1gbit,1ms --codec int4 --save tuning.txt\n"
    "         FERRULE_TUNING=file:tuning.txt torchrun ...";

Status bad(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

Status check_codecs(std::vector<std::string>& codecs) {
  std::vector<std::string> checked;
  for (const std::string& text : codecs) {
    auto codec = codec::make_codec(without_auto(text));
    FERRULE_RETURN_IF_ERROR(codec.status());
    const std::string& spec = (*codec)->spec();
    if ((*codec)->exact()) return bad(fmt::format("codec '{}' compresses nothing: name lossy ones", spec));
    if (std::find(checked.begin(), checked.end(), spec) == checked.end()) checked.push_back(spec);
  }
  if (checked.size() > kMaxCodecs)
    return bad(fmt::format("{} codecs: at most {}", checked.size(), kMaxCodecs));
  codecs = std::move(checked);
  return {};
}

Status check_transport(std::string& name) {
  if (name == "auto") name.clear();
  if (name.empty() || transport::find_transport(name) != nullptr) return {};
  std::string known;
  for (const transport::TransportDesc& each : transport::transports())
    known += (known.empty() ? "" : ",") + std::string(each.name);
  return bad(fmt::format("no transport '{}' in this build; there are: {}", name, known));
}

Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  const bool folder_ok = access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
  if (folder_ok && !std::filesystem::is_directory(path, ignored)) return {};
  return bad(fmt::format("cannot write '{}': its folder does not exist or is not writable, or it is a folder",
                         path));
}

Status check(Options& options, double timeout_s) {
  if (!(timeout_s > 0 && timeout_s <= 1e6))
    return bad(fmt::format("--timeout {}: expected seconds, more than 0 and at most 1e6", timeout_s));
  options.timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(timeout_s * 1e9));
  FERRULE_RETURN_IF_ERROR(check_codecs(options.codecs));
  FERRULE_RETURN_IF_ERROR(check_transport(options.transport));
  if (!options.link.empty()) FERRULE_RETURN_IF_ERROR(transport::LinkSpec::parse(options.link).status());
  FERRULE_RETURN_IF_ERROR(check_writable(options.json_path));
  return check_writable(options.save_path);
}

ParsedOptions finished(int exit_code, std::string text) {
  ParsedOptions parsed;
  parsed.finished = true;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  Options& o = parsed.options;
  double timeout_s = 60;
  CLI::App app(kDescription, "ferrule-probe");
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  app.add_option("--ranks", o.ranks, "start this many ranks on this machine")
      ->check(CLI::Range(2, kMaxLocalRanks));
  app.add_option("--transport", o.transport,
                 "auto, loopback (ranks are threads) or ucx (ranks are processes)");
  app.add_option("--link", o.link, "throttle each rank to a link, e.g. 1gbit,1ms");
  app.add_option("--codec", o.codecs, "lossy codec, e.g. int4:block=128; may be given several times")
      ->capture_default_str()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("-T,--timeout", timeout_s, "seconds that any one wait may take")->capture_default_str();
  app.add_option("-J,--json", o.json_path, "write the findings as JSON");
  app.add_option("--save", o.save_path, "write a tuning file, for FERRULE_TUNING=file:FILE");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finished(bench::kExitOk, app.help());
  } catch (const CLI::ParseError& error) {
    return finished(bench::kExitUsage,
                    fmt::format("ferrule-probe: {}\nTry ferrule-probe --help.\n", error.what()));
  }
  if (const Status status = check(o, timeout_s); !status.ok())
    return finished(bench::kExitUsage, fmt::format("ferrule-probe: {}\n", status.text()));
  return parsed;
}

}  // namespace ferrule::probe
