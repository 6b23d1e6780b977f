#include "bench/ferrule_bench/exchange.hpp"

#include <algorithm>

namespace ferrule::bench {
namespace {

template <class T>
Result<std::vector<T>> combine_values(const Communicator& comm, std::vector<T> values, ReduceOp op) {
  FERRULE_RETURN_IF_ERROR(comm.all_reduce(TensorView(values.data(), values.size()), op, exact_options()));
  return values;
}

}  // namespace

AllReduceOptions exact_options() {
  AllReduceOptions options;
  options.codec = "none";
  options.algorithm = "auto";
  return options;
}

Status barrier(const Communicator& comm) {
  std::int32_t token = 1;
  return comm.all_reduce(TensorView(&token, 1), ReduceOp::sum, exact_options());
}

Result<std::vector<double>> combine(const Communicator& comm, std::vector<double> values, ReduceOp op) {
  return combine_values(comm, std::move(values), op);
}

Result<std::vector<std::int64_t>> combine(const Communicator& comm, std::vector<std::int64_t> values,
                                          ReduceOp op) {
  return combine_values(comm, std::move(values), op);
}

Result<std::vector<std::string>> gather_texts(const Communicator& comm, const std::string& text) {
  constexpr std::size_t kSlot = kMaxTextBytes + 1;
  // A sum in which each slot has one contribution that is not zero is a gather.
  std::vector<std::uint8_t> slots(kSlot * static_cast<std::size_t>(comm.size()), 0);
  const std::size_t length = std::min(text.size(), kMaxTextBytes);
  std::copy_n(text.begin(), length, slots.begin() + static_cast<std::ptrdiff_t>(kSlot) * comm.rank());
  auto all = combine_values(comm, std::move(slots), ReduceOp::sum);
  if (!all.ok()) return all.status();
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all->size(); at += kSlot)
    texts.emplace_back(reinterpret_cast<const char*>(all->data() + at));  // the slot's last byte is always 0
  return texts;
}

}  // namespace ferrule::bench
