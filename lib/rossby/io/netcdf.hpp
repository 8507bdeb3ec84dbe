#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/array_file.hpp"

namespace rossby {

/// One open NetCDF file (serial library), closed by its destructor. Every failure is a UserError with the
/// file, the variable and the library's reason. Not thread-safe.
class NetcdfFile : public ArrayFile {
 public:
  /// Opens an existing NetCDF-4 or classic file for reading. Throws UserError if it is missing, not NetCDF,
  /// damaged, or shorter than its header says.
  static NetcdfFile open(const std::string& path);

  /// Creates a NetCDF-4 file, replacing a file of that name; it is in define mode until `end_define`.
  /// Messages call the file `shown`, or `path` if `shown` is empty.
  static NetcdfFile create(const std::string& path, const std::string& shown = "");

  /// Opens a NetCDF-4 file written by this process to change attributes; call `close` afterwards.
  static NetcdfFile change(const std::string& path, const std::string& shown);

  NetcdfFile(NetcdfFile&& other) noexcept;
  NetcdfFile& operator=(NetcdfFile&& other) noexcept;
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;
  ~NetcdfFile() override;

  // Reading.
  [[nodiscard]] std::vector<std::string> groups() const override;
  [[nodiscard]] std::optional<std::string> text(const NetcdfVariable& variable,
                                                const char* attribute) const override;
  [[nodiscard]] bool has(const NetcdfVariable& variable, const char* attribute) const override;
  [[nodiscard]] std::vector<double> numbers(const NetcdfVariable& variable,
                                            const char* attribute) const override;
  [[nodiscard]] bool is_real(const NetcdfVariable& variable, const char* attribute) const override;
  [[nodiscard]] bool unpacks_to_float(const NetcdfVariable& variable) const override;
  [[nodiscard]] int bits_of_other_sign(const NetcdfVariable& variable) const override;
  [[nodiscard]] std::optional<std::string> title(const char* attribute) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            float* out) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            double* out) const override;
  void read(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
            Index* out) const override;
  void check_claim(const NetcdfVariable& variable) const override;
  void check_written(const NetcdfVariable& variable) const override;
  [[nodiscard]] std::optional<double> default_fill(const NetcdfVariable& variable) const override;
  [[nodiscard]] std::vector<Index> chunks(const NetcdfVariable& variable) const override;
  void cache_chunks(const NetcdfVariable& variable, Index bytes) const override;
  void pause() noexcept override;
  void resume() override;

  // Writing.
  int define_dimension(const std::string& name, Index length);
  int define_variable(const std::string& name, NetcdfType type, std::span<const int> dimensions);
  void compress(int variable, std::span<const Index> chunk_lengths, Index cache_bytes, int level = 1);
  /// Stores the variable contiguously, without filling it first.
  void lay_out_at_once(int variable);
  void fill_with_nan(int variable, bool wide = false);  // _FillValue, float32 or float64
  void put_text(int variable, const char* attribute, std::string_view value);  // variable −1: global
  void put_flags(int variable, const char* attribute, std::span<const signed char> values);
  void end_define();
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const float* values);
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const double* values);
  void write(int variable, std::span<const Index> start, std::span<const Index> count, const Index* values);
  void write(int variable, std::span<const std::string> values);  // a whole list
  /// Ends writing or reading; throws UserError if the last bytes could not be written. The content of a
  /// written file that is destroyed without `close` is undefined.
  void close();

 private:
  NetcdfFile(std::string path, int id) : ArrayFile(std::move(path)), id_(id) {}
  void read_header();
  template <class T>
  void read_as(const NetcdfVariable& variable, std::span<const Index> start, std::span<const Index> count,
               T* out) const;
  [[nodiscard]] std::vector<std::string> read_texts(const NetcdfVariable& variable) const override;
  void abandon() noexcept;
  void check(int status, std::string_view variable) const;
  /// `damaged`: an index of the first dimension, with what HDF5 failed; −1: unknown.
  void check_read(int status, const NetcdfVariable& variable, Index damaged = -1) const;
  /// The variable's filters that HDF5 lacks, and how to get them; empty if there are none.
  [[nodiscard]] std::string foreign_filters(const NetcdfVariable& variable) const;
  /// True if chunks of the variable are compressed or have checksums.
  [[nodiscard]] bool is_filtered(const NetcdfVariable& variable) const;
  void check_claim(const NetcdfVariable& variable, double bytes_each, double ratio) const;
  [[noreturn]] void cannot_write(int status, int cause) const;

  std::uint64_t bytes_ = 0;               // size of a file open for reading
  std::int64_t changed_ = 0;              // its last change, in nanoseconds
  std::uint64_t device_ = 0, inode_ = 0;  // identity of the file
  int id_ = -1;                           // the library's id; −1: closed
  bool writing_ = false;
};

}  // namespace rossby
