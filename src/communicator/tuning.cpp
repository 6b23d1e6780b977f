#include "communicator/tuning.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <utility>

#include "codec/codec.hpp"

namespace ferrule::communicator {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kNano = 1e-9;
constexpr std::size_t kMostBytes = 1 << 20;

// A tuning file's numbers: finite, and not negative.
bool read_number(std::istringstream& words, double& value) {
  return (words >> value) && std::isfinite(value) && value >= 0;
}

Status read_line(std::istringstream& words, const std::string& kind, Tuning& tuning) {
  const auto bad = [](std::string why) { return Status(ErrorCode::invalid_argument, std::move(why)); };
  double numbers[3] = {};
  std::string rest;
  if (kind == "link") {
    for (double& number : numbers) {
      if (!read_number(words, number)) return bad("'link' needs three numbers, none negative");
    }
    tuning.link = {numbers[0] * kMicro, numbers[1] * kMicro, numbers[2] * kNano};
  } else if (kind == "codec") {
    std::string text;
    if (!(words >> text) || !read_number(words, numbers[0]) || !read_number(words, numbers[1])) {
      return bad("'codec' needs a codec and two numbers, none negative");
    }
    auto codec = codec::make_codec(text);
    FERRULE_RETURN_IF_ERROR(codec.status());
    tuning.codecs[(*codec)->spec()] = {numbers[0] * kNano, numbers[1] * kNano};
  } else {
    return bad(fmt::format("'{}' is neither 'link' nor 'codec'", kind));
  }
  return words >> rest ? bad(fmt::format("'{}' is one word too many", rest)) : Status();
}

}  // namespace

Result<Tuning> Tuning::parse(std::string_view text) {
  Tuning tuning;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string kind;
    if (!(words >> kind)) continue;
    const Status status = read_line(words, kind, tuning);
    if (!status.ok()) return Status(status.code(), fmt::format("tuning, line {}: {}", number, status.text()));
  }
  return tuning;
}

Result<Tuning> Tuning::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("FERRULE_TUNING: cannot read '{}'; ferrule-probe --save writes such a file", path));
  }
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("FERRULE_TUNING: '{}' is no tuning file: too long", path));
  }
  return parse(text);
}

std::string Tuning::to_string() const {
  std::string text = fmt::format(
      "# link: latency in us, us a message, ns a byte. codec: ns to encode and to decode an element.\n"
      "link {:.6g} {:.6g} {:.6g}\n",
      link.latency_s / kMicro, link.message_s / kMicro, link.byte_s / kNano);
  for (const auto& [codec, cost] : codecs) {
    text += fmt::format("codec {} {:.6g} {:.6g}\n", codec, cost.encode_s / kNano, cost.decode_s / kNano);
  }
  return text;
}

Result<TuningSource> TuningSource::parse(std::string_view text) {
  constexpr std::string_view kFile = "file:";
  if (text == "measure") return TuningSource{Kind::measure, ""};
  if (text == "builtin") return TuningSource{Kind::builtin, ""};
  if (text.starts_with(kFile) && text.size() > kFile.size()) {
    return TuningSource{Kind::file, std::string(text.substr(kFile.size()))};
  }
  return Status(ErrorCode::invalid_argument,
                fmt::format("FERRULE_TUNING is '{}': expected measure, builtin or file:PATH", text));
}

std::string describe(const plan::LinkModel& link) {
  return fmt::format("{:.3g} us latency, {:.3g} us a message, {:.3g} GB/s out of each rank",
                     link.latency_s / kMicro, link.message_s / kMicro, kNano / link.byte_s);
}

}  // namespace ferrule::communicator
