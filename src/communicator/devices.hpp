// The kinds of device that this build knows.
#pragma once

namespace ferrule::communicator {

/// Gives the executor its device runtime, where there is none yet. Called before the first use of a device;
/// cheap. Defined once a program: in devices_none.cpp, or in cuda/backend/attach.cpp.
void attach_devices();

}  // namespace ferrule::communicator
