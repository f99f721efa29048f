#include "cli/op_flags.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "cli/flag_values.h"

namespace weft::cli {

void add_op_flags(CLI::App& app, OpRequest* f, int max_ranks) {
  add_number(app, "--ranks", &f->ranks, fmt::format("ranks, 1 to {} (2)", max_ranks))->type_name("N");
  add_number(app, "--ranks-per-host", &f->ranks_per_host, "ranks fill hosts in blocks of this many", 1)->type_name("N");
  add_number(app, "--m", &f->m, "rows of one rank's output (1024; gemv 1)")->type_name("N");
  add_number(app, "--n", &f->n, "its columns (1024; gemv 4096)")->type_name("N");
  add_number(app, "--k", &f->k, "length of its sums (512; gemv 2048)")->type_name("N");
  app.add_option("--tile", f->tile, "rows,columns of a tile (chosen)")->delimiter(',')->type_name("R,C");
  app.add_option("--weight", f->weight, "type of weights: f32, bf16 or f16")->type_name("TYPE");
  app.add_flag("--addend", f->addend, "gemm, gemv: every rank adds its product to a matrix of its own");
  app.add_option("--route", f->route,
                 "auto, ring, direct, staged, one_shot, two_shot, ring_shot, chain, two_level, halving_doubling, torus")
      ->type_name("ROUTE");
  app.add_option("--torus", f->torus, "all_reduce by torus: dimensions, as 16,8 or 4,4,4 (two, nearly square)")
      ->delimiter(',')
      ->type_name("N,N,...");
  add_number(app, "--slices", &f->slices, "all_reduce by ring, two_shot or two_level: slices (chosen)", 1)
      ->type_name("S");
  app.add_option("--wire", f->wire, "partial sums travel as f32, bf16 or int8")->type_name("TYPE");
  app.add_option("--wire-sums", f->wire_sums,
                 "all_reduce: sums go to everybody as f32, bf16 or int8 (int8 with --wire int8)")
      ->type_name("TYPE");
  app.add_option("--stack", f->stack, "all_to_all: stack by rows or columns")->type_name("HOW");
  add_number(app, "--root", &f->root, "broadcast: rank that makes it (0)")->type_name("RANK");
  add_number(app, "--tables", &f->tables, "embedding: tables of one rank (8)")->type_name("N");
  add_number(app, "--rows", &f->rows, "embedding: rows of a table (10000)")->type_name("N");
  add_number(app, "--dim", &f->dim, "embedding: floats of a row (64)")->type_name("N");
  add_number(app, "--batch", &f->batch, "embedding: samples of the whole batch (1024)")->type_name("N");
  add_number(app, "--pooling", &f->pooling, "embedding: rows pooled for a sample in a table (32)")->type_name("N");
  add_number(app, "--zipf", &f->zipf, "embedding: row of rank i is read with weight 1/i^A (0: all alike)")
      ->type_name("A");
  app.add_option(
         "--workload", f->workload,
         "embedding: tables and batch of a workload, as dlrm-v2; --rows caps its tables (100000). gemm-a2a: rows "
         "of its experts, as mixtral-8x7b")
      ->type_name("NAME");
  add_number(app, "--tokens", &f->tokens, "gemm-a2a of a workload: tokens of a rank (its sequence)", 1)->type_name("N");
  add_number(app, "--skew", &f->skew, "gemm-a2a of a workload: expert e is chosen with weight 1/(e+1)^S (0)")
      ->type_name("S");
  app.add_option("--tables-of", f->tables_of, "embedding: one-hot, multi-hot or all tables of the workload")
      ->type_name("WHICH");
  app.add_option("--pool", f->pool, "embedding: sum or mean")->type_name("HOW");
  for (CLI::Option* option : app.get_options())
    if (option->nonpositional())
      option->each([f, name = option->get_name()](const std::string& value) { f->given.emplace_back(name, value); });
}

}  // namespace weft::cli
