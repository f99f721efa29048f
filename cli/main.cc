// main() alone, so that tests can call the rest (program.cc).
#include "cli/program.h"

int main(int argc, char** argv) { return weft::cli::program(argc, argv); }
