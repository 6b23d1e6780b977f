#include "rendezvous/launcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/launcher_places.hpp"

namespace ferrule::rendezvous {
namespace {

using testing::HasSubstr;

constexpr ProcessFacts kFacts{1000, 77};

struct Good {
  const char* name;
  Environment environment;
  std::int32_t rank, size, local_rank;
  const char* describe;
  const char* place;  // "" for none
};

Environment with(Environment base, const Environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Environment kMaster = {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29400"}};
const Environment kPlainOne = with(kMaster, {{"RANK", "1"}, {"WORLD_SIZE", "2"}});
const Environment kTorchrunOne =
    with(kPlainOne, {{"TORCHELASTIC_RUN_ID", "none"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
const Environment kOpenMpiOne = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"PMIX_NAMESPACE", "4711"},          {"PMIX_RANK", "1"}};
const Environment kSlurmOne = {{"SLURM_PROCID", "1"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_STEP_ID", "0"},
                               {"SLURM_JOB_ID", "5"},
                               {"SLURM_LOCALID", "1"}};
const Environment kMpichOne = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

const Good kGood[] = {
    {"nothing", {}, 0, 1, -1, "1 rank (no launcher found)", ""},
    {"unrelated", {{"HOME", "/root"}, {"MASTER_ADDR", "x"}}, 0, 1, -1, "1 rank (no launcher found)", ""},
    {"world_of_one", {{"WORLD_SIZE", "1"}}, 0, 1, -1, "1 rank (no launcher found)", ""},
    {"plain", kPlainOne, 1, 2, -1, "2 ranks (from RANK and WORLD_SIZE)", "tcp://10.0.0.1:29400"},
    {"plain_v6", with(kPlainOne, {{"MASTER_ADDR", "[fd00::1]"}}), 1, 2, -1,
     "2 ranks (from RANK and WORLD_SIZE)", "tcp://[fd00::1]:29400"},
    {"torchrun", kTorchrunOne, 1, 2, 1, "2 ranks (from torchrun's RANK and WORLD_SIZE)", "tcp://10.0.0.1"},
    {"torchrun_in_slurm", with(kTorchrunOne, with(kSlurmOne, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})),
     1, 2, 1, "2 ranks (from torchrun's RANK and WORLD_SIZE)", "tcp://10.0.0.1"},
    {"open_mpi", kOpenMpiOne, 1, 2, 1, "2 ranks (from OMPI_COMM_WORLD_*)", "tcp://127.0.0.1"},
    {"open_mpi_in_slurm",
     with(kOpenMpiOne, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "3"}}), 1, 2, 1,
     "2 ranks (from OMPI_COMM_WORLD_*)", "tcp://127.0.0.1"},
    {"open_mpi_same_as_rank", with(kOpenMpiOne, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}), 1, 2, 1,
     "2 ranks (from OMPI_COMM_WORLD_*)", "tcp://127.0.0.1"},
    {"open_mpi_hosts",
     with(kOpenMpiOne,
          {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
           {"OMPI_MCA_orte_hnp_uri", "1927282688.0;tcp://192.0.2.2,10.1.0.1:37251;tcp6://[fd00::2]:52875"}}),
     1, 2, 1, "2 ranks (from OMPI_COMM_WORLD_*)", "tcp://192.0.2.2"},
    {"open_mpi_master", with(kOpenMpiOne, kMaster), 1, 2, 1, "2 ranks (from OMPI_COMM_WORLD_*)",
     "tcp://10.0.0.1:29400"},
    {"mpich", kMpichOne, 1, 2, 1, "2 ranks (from PMI_*)", "tcp://127.0.0.1"},
    {"mpich_in_slurm", with(kMpichOne, with(kSlurmOne, {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}})), 1, 2,
     1, "2 ranks (from PMI_*)", "tcp://127.0.0.1"},
    {"bare_pmi", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, 0, 2, -1, "2 ranks (from PMI_*)", "tcp://127.0.0.1"},
    {"slurm", kSlurmOne, 1, 2, 1, "2 ranks (from SLURM_*)", "tcp://127.0.0.1"},
    {"slurm_with_pmi", with(kSlurmOne, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), 1, 2, 1,
     "2 ranks (from SLURM_*)", "tcp://127.0.0.1"},
    {"slurm_step_size", with(kSlurmOne, {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}}), 1, 2, 1,
     "2 ranks (from SLURM_*)", "tcp://127.0.0.1"},
    {"slurm_hosts", with(kSlurmOne, {{"SLURM_JOB_NODELIST", "node[07-09,12]"}, {"SLURM_JOB_NUM_NODES", "4"}}),
     1, 2, 1, "2 ranks (from SLURM_*)", "tcp://node07"},
    {"slurm_one_host", with(kSlurmOne, {{"SLURM_JOB_NODELIST", "node7"}}), 1, 2, 1, "2 ranks (from SLURM_*)",
     "tcp://127.0.0.1"},
    {"slurm_simulated",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}},
     0,
     2,
     -1,
     "2 ranks (from SLURM_*)",
     "tcp://127.0.0.1"},
    {"slurm_local_launcher",
     with(kPlainOne, {{"RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}}),
     1, 2, -1, "2 ranks (from RANK and WORLD_SIZE)", "tcp://10.0.0.1:29400"},
    {"slurm_login_shell",
     {{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "5"}},
     0,
     1,
     -1,
     "1 rank (no launcher found)",
     ""},
    {"slurm_batch_script",
     {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"ENVIRONMENT", "BATCH"}},
     0,
     1,
     -1,
     "1 rank (no launcher found)",
     ""},
    {"slurm_interactive",
     {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967290"}},
     0,
     1,
     -1,
     "1 rank (no launcher found)",
     ""},
    {"given_place", with(kOpenMpiOne, {{"FERRULE_RENDEZVOUS", "tcp://[::1]:5000"}}), 1, 2, 1,
     "2 ranks (from OMPI_COMM_WORLD_*)", "tcp://[::1]:5000"},
    {"given_file", with(kPlainOne, {{"FERRULE_RENDEZVOUS", "file:///tmp/x"}}), 1, 2, -1,
     "2 ranks (from RANK and WORLD_SIZE)", "file:///tmp/x"},
};

class GoodLaunchers : public testing::TestWithParam<Good> {};
INSTANTIATE_TEST_SUITE_P(Table, GoodLaunchers, testing::ValuesIn(kGood),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(GoodLaunchers, AreRecognised) {
  const Good& good = GetParam();
  const Result<World> world = world_from(good.environment, kFacts);
  ASSERT_TRUE(world.ok()) << world.status().text();
  EXPECT_EQ(world->rank, good.rank);
  EXPECT_EQ(world->size, good.size);
  EXPECT_EQ(world->local_rank, good.local_rank);
  EXPECT_EQ(world->describe(), good.describe);
  EXPECT_EQ(world->place ? world->place->text() : "", good.place);
}

struct Bad {
  const char* name;
  Environment environment;
  std::vector<const char*> parts;  // of the error
};

const Bad kBad[] = {
    {"rank_too_large", with(kMaster, {{"RANK", "4"}, {"WORLD_SIZE", "4"}}), {"RANK=4", "WORLD_SIZE=4"}},
    {"sizes_disagree",
     with(kOpenMpiOne, {{"WORLD_SIZE", "4"}}),
     {"OMPI_COMM_WORLD_SIZE says 2", "WORLD_SIZE says 4"}},
    {"ranks_disagree", with(kOpenMpiOne, {{"RANK", "0"}}), {"OMPI_COMM_WORLD_RANK says 1", "RANK says 0"}},
    {"slurm_disagrees", with(kSlurmOne, {{"WORLD_SIZE", "4"}}), {"SLURM_NTASKS says 2", "WORLD_SIZE says 4"}},
    {"rank_alone", {{"RANK", "1"}}, {"RANK=1 is set, but WORLD_SIZE is not"}},
    {"size_alone", {{"WORLD_SIZE", "3"}}, {"WORLD_SIZE=3 is set, but RANK is not"}},
    {"no_number", with(kMaster, {{"RANK", "one"}, {"WORLD_SIZE", "2"}}), {"RANK='one'"}},
    {"negative", with(kMaster, {{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), {"RANK='-1'"}},
    {"no_master", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}, {"MASTER_ADDR", "FERRULE_RENDEZVOUS"}},
    {"bad_port", with(kPlainOne, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT='70000'"}},
    {"bad_place",
     with(kPlainOne, {{"FERRULE_RENDEZVOUS", "udp://x:1"}}),
     {"FERRULE_RENDEZVOUS", "udp://x:1", "tcp://host:port"}},
    {"bad_list", with(kSlurmOne, {{"SLURM_JOB_NODELIST", "node[1-"}}), {"node[1-"}},
    {"mpich_hosts", with(kMpichOne, {{"MPI_LOCALNRANKS", "1"}}), {"MASTER_ADDR"}},
};

class BadLaunchers : public testing::TestWithParam<Bad> {};
INSTANTIATE_TEST_SUITE_P(Table, BadLaunchers, testing::ValuesIn(kBad),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(BadLaunchers, AreRefusedWithWhatIsWrong) {
  const Result<World> world = world_from(GetParam().environment, kFacts);
  ASSERT_EQ(world.status().code(), ErrorCode::invalid_argument);
  for (const char* part : GetParam().parts) EXPECT_THAT(world.status().text(), HasSubstr(part));
}

TEST(Launcher, JobsHaveNamesOfTheirOwn) {
  const auto job = [](const Environment& environment) {
    return world_from(environment, kFacts).value().place->job;
  };
  EXPECT_EQ(job(kTorchrunOne), job(with(kTorchrunOne, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})));
  EXPECT_NE(job(kTorchrunOne), job(with(kTorchrunOne, {{"TORCHELASTIC_RUN_ID", "other"}})));
  EXPECT_NE(job(kTorchrunOne), job(with(kTorchrunOne, {{"TORCHELASTIC_RESTART_COUNT", "1"}})));
  EXPECT_NE(job(kOpenMpiOne), job(with(kOpenMpiOne, {{"PMIX_NAMESPACE", "4712"}})));
  EXPECT_NE(job(kSlurmOne), job(with(kSlurmOne, {{"SLURM_STEP_ID", "1"}})));
}

TEST(Launcher, TorchrunsOwnPortIsNeverTried) {
  const Place place = *world_from(kTorchrunOne, kFacts).value().place;
  for (const std::uint16_t port : candidate_ports(place, std::nullopt)) EXPECT_NE(port, 29400);
  EXPECT_EQ(candidate_ports(*world_from(kPlainOne, kFacts).value().place, std::nullopt).front(), 29400);
}

TEST(Launcher, ContactAddresses) {
  EXPECT_THAT(addresses_in_contact("1.0;tcp://192.0.2.2,127.0.0.1,10.1.0.1:3;tcp6://[fd00::2]:5;ssh://x:1"),
              testing::ElementsAre("192.0.2.2", "10.1.0.1", "fd00::2"));
  EXPECT_THAT(addresses_in_contact("1.0;tcp4://127.0.0.1:3"), testing::IsEmpty());
  for (const char* odd : {"", ";", "tcp", "tcp://", "tcp://:", ";;tcp://host:1;", "tcp6://[]:1"}) {
    EXPECT_THAT(addresses_in_contact(odd), testing::IsEmpty()) << odd;
  }
}

}  // namespace
}  // namespace ferrule::rendezvous
