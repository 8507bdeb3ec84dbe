// State files that claim data which they do not hold, edited with HDF5 itself.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>
#include <mpi.h>
#include <unistd.h>

#include "rossby/base/error.hpp"
#include "rossby/mpi/hdf5_handle.hpp"
#include "rossby/mpi/state_file.hpp"

namespace rossby {
namespace {

class HostileState : public ::testing::Test {
 protected:
  HostileState() : state_(4, 1.0F) {
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = std::filesystem::temp_directory_path() / ("rossby_hostile_" + std::to_string(id) + ".h5");
    write_state<float>(world_, path_, partition_, arrays(), "{}");
  }
  ~HostileState() override {
    world_.barrier();
    if (world_.rank() == 0) std::filesystem::remove(path_);
  }

  std::vector<StateArray<float>> arrays() {
    return {{"theta", Placement::replicated, 1, 4, state_.data(), nullptr, false}};
  }

  /// Replaces an attribute by one of `count` numbers.
  void lengthen(const char* name, hsize_t count, std::uint64_t number = 1) {
    world_.barrier();  // all ranks have finished reading
    if (world_.rank() == 0) {
      const Hdf5File file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      EXPECT_GE(H5Adelete(file, name), 0);
      const Hdf5Space space(H5Screate_simple(1, &count, nullptr));
      const Hdf5Attribute attribute(H5Acreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT));
      const std::vector<std::uint64_t> values(count, number);
      EXPECT_GE(H5Awrite(attribute, H5T_NATIVE_UINT64, values.data()), 0);
    }
    world_.barrier();
  }

  /// Replaces the metadata dataset by one of other extents without values.
  void claim(const std::vector<hsize_t>& extents) {
    world_.barrier();  // all ranks have finished reading
    if (world_.rank() == 0) {
      const Hdf5File file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
      EXPECT_GE(H5Ldelete(file, "metadata", H5P_DEFAULT), 0);
      const Hdf5Space space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
      const Hdf5Dataset dataset(
          H5Dcreate2(file, "metadata", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      EXPECT_TRUE(dataset.valid());
    }
    world_.barrier();
  }

  template <class Call>
  static std::string complaint(Call&& call) {
    try {
      call();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no UserError";
  }

  Communicator world_ = Communicator::world();
  RowPartition partition_ = RowPartition::blocks(3, world_.size());
  std::vector<float> state_;
  std::string path_;
};

TEST_F(HostileState, AnAttributeOfManyNumbersIsRefusedNotReadIntoOne) {
  lengthen("format_version", 500);
  const std::string whole = complaint([&] { read_state<float>(world_, path_, partition_, arrays()); });
  EXPECT_NE(whole.find("'format_version' is not a single number"), std::string::npos) << whole;
  const std::string text = complaint([&] { (void)read_state_metadata(path_); });
  EXPECT_NE(text.find("'format_version' is not a single number"), std::string::npos) << text;
}

TEST_F(HostileState, AnotherVersionIsRefusedWithoutAdviceToTakeAnotherCheckpoint) {
  lengthen("format_version", 1, 2);
  for (const std::string& message :
       {complaint([&] { read_state<float>(world_, path_, partition_, arrays()); }),
        complaint([&] { (void)read_state_metadata(path_); })}) {
    EXPECT_NE(message.find("has format version 2, but this version of Rossby reads version 1. Use"),
              std::string::npos)
        << message;
    EXPECT_EQ(message.find("another checkpoint"), std::string::npos) << message;
  }
}

TEST_F(HostileState, MetadataOfMoreBytesThanTheFileIsRefusedBeforeMemoryIsTaken) {
  claim({1, hsize_t{1} << 50, 1});
  const std::string text = complaint([&] { (void)read_state_metadata(path_); });
  EXPECT_NE(text.find("claims 1125899906842624 bytes"), std::string::npos) << text;
}

TEST_F(HostileState, MetadataOfAnotherShapeIsRefused) {
  for (const std::vector<hsize_t>& extents :
       {std::vector<hsize_t>{2}, {2, 1, 1}, {1, 1, 2}, {1, 1, 1, 1, 2}}) {
    claim(extents);
    const std::string text = complaint([&] { (void)read_state_metadata(path_); });
    EXPECT_NE(text.find("not text of shape (1, bytes, 1)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace rossby
