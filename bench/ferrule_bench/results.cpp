#include "bench/ferrule_bench/results.hpp"

#include <algorithm>

#include "bench/ferrule_bench/names.hpp"

namespace ferrule::bench {
namespace {

PlaceFigures figures_of(const CaseResult& result, const Timing& timing,
                        const std::optional<Verdict>& verdict) {
  PlaceFigures figures;
  figures.time_us = timing.shown_us;
  figures.algbw_gbps = algbw_gbps(result.what.bytes(), timing.shown_us);
  figures.busbw_gbps = result.busbw_gbps(timing);
  if (verdict) figures.wrong = verdict->wrong;
  return figures;
}

}  // namespace

double CaseResult::compression() const {
  if (out_of_place.wire_bytes == 0) return 1;  // one rank, or nothing to send
  return static_cast<double>(raw_wire_bytes) / static_cast<double>(out_of_place.wire_bytes);
}

double CaseResult::busbw_gbps(const Timing& timing) const {
  return algbw_gbps(what.bytes(), timing.shown_us) * bus_factor(what.operation, ranks);
}

std::optional<Verdict> CaseResult::verdict() const {
  if (!out_of_place_verdict || !in_place_verdict) return std::nullopt;
  Verdict both = *out_of_place_verdict;
  const Verdict& other = *in_place_verdict;
  both.wrong += other.wrong;
  both.rel_error = std::max(other.rel_error, both.rel_error);
  both.max_error = std::max(other.max_error, both.max_error);
  both.identical = both.identical && other.identical;
  return both;
}

bool CaseResult::passed() const {
  const auto both = verdict();
  return !both || (both->wrong == 0 && both->identical);
}

Row table_row_of(const CaseResult& result) {
  Row row;
  row.bytes = result.what.bytes();
  row.count = result.what.count;
  row.type = nccl_dtype_name(result.what.dtype);
  row.op = reduces(result.what.operation) ? op_name(result.what.op) : "none";
  row.out_of_place = figures_of(result, result.out_of_place, result.out_of_place_verdict);
  row.in_place = figures_of(result, result.in_place, result.in_place_verdict);
  const Timing& timing = result.out_of_place;
  row.extra = {timing.wire_bytes,
               result.compression(),
               timing.encode_percent,
               timing.wait_percent,
               timing.decode_percent,
               {},
               {},
               {},
               result.what.codec,
               result.what.algorithm,
               summarise(timing.samples_us),
               timing.slowest};
  if (const auto both = result.verdict()) {
    row.extra.rel_error = both->rel_error;
    row.extra.max_error = both->max_error;
    row.extra.identical = both->identical;
  }
  return row;
}

}  // namespace ferrule::bench
