"""What the shares leave out, each with its reason; at most twenty."""

MOST = 20

# Names of the database: why a graph cannot hold it, or need not.
EXCLUDED: dict[str, str] = {
    "_segment_reduce.lengths": "segment_reduce can be told not to look at its lengths",
    "_segment_reduce.offsets": "segment_reduce can be told not to look at its offsets",
    "_unsafe_masked_index": "internal to torch: indices of masked places are not looked at",
    "_unsafe_masked_index_put_accumulate": "internal to torch: indices are not looked at",
    "chalf": "complex numbers of 32 bits have no place in a graph",
    "hash_tensor": "its result is of a dtype that torch can do little with, uint64",
    "histogramdd": "not reviewed for the list of operators",
    "linalg.eig": "not reviewed for the list of operators",
    "linalg.eigvals": "not reviewed for the list of operators",
    "linalg.ldl_solve": "believes pivots without a look; with ldl_factor in one graph it runs",
    "nonzero_static": "not reviewed for the list of operators",
    "resize_": "changes the memory of a tensor in place",
    "resize_as_": "changes the memory of a tensor in place",
    "sparse.mm.reduce": "takes sparse tensors",
    "sparse.sampled_addmm": "takes sparse tensors",
    "tensor_split": "reads the tensor that says where to split, while it is called",
    "to_sparse": "gives a sparse tensor",
}

# Results are memory as it was found: there are no values to be equal to.
UNINITIALIZED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)

# Of torch's optimizers these need what no graph holds: a closure that is evaluated as often as the
# search wants, gradients whose sizes depend on data.
OPTIMIZERS = frozenset({"LBFGS", "SparseAdam"})
