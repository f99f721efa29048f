// Programs that virtual hosts are made with (ip, tc), and what must be so before any of that: root, and the programs.
#pragma once

#include <string>
#include <vector>

namespace weft::virtual_hosts {

// The program's path as PATH has it, /usr/sbin and /sbin too; empty where there is none.
std::string find_program(const std::string& name);

// bad_input unless this is root; `what` begins the sentence.
void require_root(const std::string& what);
void require_program(const std::string& name, const std::string& package);  // bad_input that names the package

// Runs a program with `input` on its standard input and waits; failure with its first words on standard error where it
// ends with another code than 0. Signals to the terminal do not reach it.
void run_tool(const std::vector<std::string>& words, const std::string& input);

}  // namespace weft::virtual_hosts
