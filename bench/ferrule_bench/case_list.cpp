#include "bench/ferrule_bench/case_list.hpp"

#include <fmt/format.h>

#include "bench/ferrule_bench/names.hpp"
#include "ferrule/codec_spec.hpp"

namespace ferrule::bench {
namespace {

bool is_raw(const std::string& codec) {
  const auto spec = CodecSpec::parse(without_auto(codec));
  return spec.ok() && spec->name == "none";
}

void add_cases(const Options& options, const std::string& codec, CaseGroup& group) {
  for (const std::string& algorithm : options.algorithms) {
    Case what;
    what.operation = options.operation;
    what.codec = codec;
    what.algorithm = algorithm;
    what.dtype = group.dtype;
    what.op = group.op;
    what.lossy = !is_raw(codec);
    what.error_feedback = what.lossy && options.error_feedback && reduces(options.operation);
    group.cases.push_back(std::move(what));
  }
}

}  // namespace

bool takes(const std::string& codec, DType dtype, ReduceOp op) {
  return is_raw(codec) || (is_compressible(dtype) && (op == ReduceOp::sum || op == ReduceOp::avg));
}

Result<CaseList> list_cases(const Options& options) {
  CaseList list;
  for (const DType dtype : options.dtypes) {
    for (const ReduceOp op : options.ops) {
      CaseGroup group{dtype, op, {}};
      for (const std::string& codec : options.codecs) {
        if (!takes_codecs(options.operation) && !is_raw(codec)) {
          list.skipped.push_back(fmt::format("codec {}: {} is always exact", codec, name(options.operation)));
        } else if (takes(codec, dtype, op)) {
          add_cases(options, codec, group);
        } else {
          list.skipped.push_back(fmt::format("codec {} takes float sums and averages only: no {} of {}",
                                             codec, op_name(op), nccl_dtype_name(dtype)));
        }
      }
      if (!group.cases.empty()) list.groups.push_back(std::move(group));
    }
  }
  if (list.groups.empty())
    return Status(ErrorCode::unsupported,
                  fmt::format("nothing to measure: {}", fmt::join(list.skipped, "; ")));
  return list;
}

}  // namespace ferrule::bench
