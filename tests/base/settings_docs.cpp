// settings_docs <file>: fails if the file is not what the table of settings says. settings_docs --write
// <file> makes it so.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "base/settings.hpp"

int main(int argc, char** argv) {
  const bool write = argc > 1 && std::strcmp(argv[1], "--write") == 0;
  const int path_at = write ? 2 : 1;
  const std::string path = path_at < argc ? argv[path_at] : FERRULE_SETTINGS_PAGE;
  const std::string wanted = ferrule::settings::markdown();
  if (write) {
    std::ofstream(path, std::ios::binary) << wanted;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  if (found == wanted) return 0;
  std::fprintf(stderr, "%s is not what src/base/settings_table.hpp says; run settings_docs --write\n",
               path.c_str());
  return 1;
}
