// What the C functions share: handles, the last error, and the step from Status to ferruleResult_t.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "codec/codec.hpp"
#include "communicator/communicator.hpp"
#include "communicator/connect.hpp"
#include "ferrule/ferrule.h"
#include "ferrule/status.hpp"
#include "residual/residual.hpp"

struct ferruleComm {
  std::shared_ptr<ferrule::communicator::Communicator> communicator;
};
struct ferruleWork {
  std::shared_ptr<ferrule::communicator::Work> work;
  std::weak_ptr<ferrule::communicator::Communicator> communicator;
};
struct ferruleResidual {
  std::unique_ptr<ferrule::residual::Residual> residual;
};
struct ferruleCodec {
  std::shared_ptr<const ferrule::codec::Codec> codec;
};

namespace ferrule::c_api {

/// Keeps the text for ferruleGetLastError and returns the code.
ferruleResult_t report(const Status& status);
const char* last_error();

/// Runs `body`, which returns a Status; no exception leaves it.
template <class Body>
ferruleResult_t guarded(Body&& body) {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return report(Status(ErrorCode::system, "out of memory"));
  } catch (const std::exception& error) {
    return report(Status(ErrorCode::internal, std::string("unexpected exception: ") + error.what()));
  } catch (...) {
    return report(Status(ErrorCode::internal, "unexpected exception"));
  }
}

inline Status null_argument(std::string_view name) {
  return Status(ErrorCode::invalid_argument, std::string(name) + " is null");
}

/// The caller's options, into a call of any collective; the texts are the caller's memory.
Status read_options(const ferruleOptions_t* options, ferruleOptions_t& given, communicator::Call& call);
/// Starts the call, and waits for it unless options.work says otherwise.
Status start_call(const communicator::Call& call, const ferruleOptions_t& given, ferruleComm_t comm);
Status start_transfer(const communicator::TransferCall& call, const ferruleOptions_t& given,
                      ferruleComm_t comm);
/// Whose memory the call's pointers are, by the options and the stream.
Status read_memory(const ferruleOptions_t& given, ferruleStream_t stream, communicator::Call& call);

inline std::string text_or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

/// Copies the caller's struct, which may be of an older or newer library: what it lacks stays as it is.
template <class T>
Status read_struct(const T* given, T& out, std::string_view name) {
  if (given == nullptr) return {};
  if (given->struct_bytes < sizeof(std::size_t) || given->struct_bytes > 4096) {
    return Status(ErrorCode::invalid_argument,
                  std::string(name) + ".struct_bytes is not set: start with the matching *_INIT macro");
  }
  const std::size_t bytes = given->struct_bytes < sizeof(T) ? given->struct_bytes : sizeof(T);
  std::copy_n(reinterpret_cast<const unsigned char*>(given), bytes, reinterpret_cast<unsigned char*>(&out));
  return {};
}

}  // namespace ferrule::c_api
