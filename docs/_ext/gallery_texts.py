"""What the programs of the gallery compute, in words, and where their definitions stand."""

from __future__ import annotations

from dataclasses import dataclass

_POLYBENCH = (
    "L.-N. Pouchet and T. Yuki, *PolyBench/C 4.2*, 2016, there `{}`. A collection of small loops "
    "that compilers are compared by."
)
_LIVERMORE = (
    "F. H. McMahon, *The Livermore Fortran Kernels: A Computer Test of the Numerical Performance "
    "Range*, Lawrence Livermore National Laboratory, UCRL-53745, 1986, there kernel {}."
)
_CONVOLUTIONS = (
    "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, *Gradient-based learning applied to document "
    "recognition*, Proceedings of the IEEE 86, 1998."
)


def slug(name: str) -> str:
    """The name of a program's page."""
    return name.lower().replace(" ", "_").replace("-", "_")


@dataclass(frozen=True)
class Example:
    """A program's page: its title, its group, what it computes, and its published definition."""

    title: str
    group: str
    about: str
    definition: str


GRIDS, ALGEBRA, SEQUENCES, MOTION, LEARNING = (
    "Fields on grids",
    "Linear algebra",
    "Sequences, graphs and data",
    "Motion and images",
    "Networks",
)
GROUPS = (MOTION, GRIDS, ALGEBRA, SEQUENCES, LEARNING)

EXAMPLES: dict[str, Example] = {
    "mandelbrot": Example(
        "The Mandelbrot set",
        MOTION,
        "How many of fifty steps z → z² + c each point c of the plane takes to leave the circle of "
        "radius 2. Points that never leave it are the set. All points are computed at once; those "
        "that have left stay where they are, by `where`.",
        "B. B. Mandelbrot, *Fractal aspects of the iteration of z → λz(1−z) for complex λ and z*, "
        "Annals of the New York Academy of Sciences 357, 1980.",
    ),
    "ray marching": Example(
        "Ray marching",
        MOTION,
        "A sphere, a ring around it and a floor, seen by a ray for each pixel. A ray steps forward "
        "by its distance to the scene, which is a formula, until there is none left; the slope of "
        "that distance is the surface's normal, and gives the light.",
        "J. C. Hart, *Sphere tracing: a geometric method for the antialiased ray tracing of "
        "implicit surfaces*, The Visual Computer 12, 1996.",
    ),
    "adaptive runge-kutta": Example(
        "Runge-Kutta with steps of its own choice",
        MOTION,
        "Lorenz's three equations, by a method of order 3 that has one of order 2 inside: the "
        "difference of the two is the error, which sets the size of the next step and says whether "
        "this one counts. A `while_loop` goes on until the end is reached.",
        "P. Bogacki and L. F. Shampine, *A 3(2) pair of Runge-Kutta formulas*, Applied Mathematics "
        "Letters 2, 1989; E. N. Lorenz, *Deterministic nonperiodic flow*, Journal of the "
        "Atmospheric Sciences 20, 1963.",
    ),
    "hmc": Example(
        "Hamiltonian Monte Carlo",
        MOTION,
        "A Markov chain that draws from a normal distribution of ten dimensions. Each step gives "
        "the point a push, follows its motion for eight leapfrog steps, and accepts where it ends "
        "with a probability that keeps the distribution. The random draws are operands.",
        "S. Duane, A. D. Kennedy, B. J. Pendleton and D. Roweth, *Hybrid Monte Carlo*, Physics "
        "Letters B 195, 1987.",
    ),
    "cart-pole rollout": Example(
        "Carts that balance poles",
        MOTION,
        "A batch of carts, each with a pole, for two hundred steps; a policy of two layers says "
        "how hard each is pushed. A cart that has left its track or dropped its pole stays as it "
        "is, and gets no more reward.",
        "A. G. Barto, R. S. Sutton and C. W. Anderson, *Neuronlike adaptive elements that can "
        "solve difficult learning control problems*, IEEE Transactions on Systems, Man, and "
        "Cybernetics 13, 1983.",
    ),
    "barnes-hut": Example(
        "Gravity by a tree",
        MOTION,
        "The forces between many bodies. Those far away act as one: cells of a tree over the "
        "square have a mass and a centre, and each body walks down the tree with a stack of its "
        "own, only as deep as its distance asks for.",
        "J. Barnes and P. Hut, *A hierarchical O(N log N) force-calculation algorithm*, Nature "
        "324, 1986.",
    ),
    "lattice Boltzmann": Example(
        "Flow by the lattice Boltzmann method",
        GRIDS,
        "A fluid on a torus as populations of particles that move in nine directions: in each of "
        "twenty steps they relax towards their equilibrium in each cell, then move on by one cell.",
        "Y. H. Qian, D. d'Humières and P. Lallemand, *Lattice BGK models for Navier-Stokes "
        "equation*, Europhysics Letters 17, 1992 (D2Q9).",
    ),
    "shallow water": Example(
        "Shallow water",
        GRIDS,
        "The height of water in a basin without walls and its velocities, twenty steps of the "
        "scheme of Lax and Friedrichs: each cell becomes the mean of its neighbours, less what "
        "flows out of it.",
        "P. D. Lax, *Weak solutions of nonlinear hyperbolic equations and their numerical "
        "computation*, Communications on Pure and Applied Mathematics 7, 1954, with the fluxes of "
        "the equations of Saint-Venant.",
    ),
    "fdtd-2d": Example(
        "Electromagnetic waves",
        GRIDS,
        "An electric field with two components and a magnetic one with one, each of which drives "
        "the other in turn, half a cell apart. A source along one edge grows with time.",
        _POLYBENCH.format("fdtd-2d"),
    ),
    "jacobi-2d": Example(
        "Averages with all neighbours: Jacobi",
        GRIDS,
        "Twice in each of twenty steps every inner point becomes the mean of itself and its four "
        "neighbours, all read before any is written. That is how heat spreads, and how Laplace's "
        "equation is solved.",
        _POLYBENCH.format("jacobi-2d"),
    ),
    "seidel-2d": Example(
        "Averages in place: Gauss and Seidel",
        GRIDS,
        "As Jacobi's method with all eight neighbours, but in place: each point is averaged with "
        "neighbours of which half are new already. The loops go from element to element, as in C.",
        _POLYBENCH.format("seidel-2d"),
    ),
    "heat-3d": Example(
        "Heat in a cube",
        GRIDS,
        "Twenty explicit steps of the heat equation in three dimensions. The faces keep their "
        "temperature.",
        _POLYBENCH.format("heat-3d"),
    ),
    "red-black relaxation": Example(
        "Poisson's equation, red and black",
        GRIDS,
        "Successive over-relaxation on a chessboard: points of one colour depend on those of the "
        "other only, so that each half is computed at once.",
        "D. M. Young, *Iterative methods for solving partial difference equations of elliptic "
        "type*, Transactions of the American Mathematical Society 76, 1954.",
    ),
    "explicit hydrodynamics": Example(
        "Explicit hydrodynamics",
        GRIDS,
        "A fragment of a code for the motion of a compressible fluid: pressures accelerate the "
        "corners of cells, and the corners move.",
        _LIVERMORE.format("18"),
    ),
    "implicit hydrodynamics": Example(
        "Implicit hydrodynamics",
        GRIDS,
        "Each element is drawn towards a sum over its neighbours with coefficients of its own, in "
        "place, so that it waits for the one on its left: a `scan` in each row.",
        _LIVERMORE.format("23"),
    ),
    "adi": Example(
        "Alternating directions",
        GRIDS,
        "The heat equation by steps that are implicit along columns, then along rows: each half "
        "solves a tridiagonal system for each line, there by one `scan` and back by another.",
        _POLYBENCH.format("adi"),
    ),
    "deriche": Example(
        "Edges by a recursive filter",
        GRIDS,
        "A filter that smooths an image, or finds its edges, by two recursions along each row, "
        "there and back, and then along each column. The time does not depend on its width.",
        "R. Deriche, *Using Canny's criteria to derive a recursively implemented optimal edge "
        "detector*, International Journal of Computer Vision 1, 1987; PolyBench/C 4.2, `deriche`, "
        "with coefficients of our own.",
    ),
    "lu by outer products": Example(
        "LU factors by outer products",
        ALGEBRA,
        "A matrix as the product of a lower and an upper triangle, in place and without pivots: "
        "for each column an outer product is subtracted from what is left.",
        _POLYBENCH.format("lu"),
    ),
    "lu by elements": Example(
        "LU factors element by element",
        ALGEBRA,
        "The same factors by three loops over single elements, as a program in C has them.",
        _POLYBENCH.format("lu"),
    ),
    "cholesky": Example(
        "Cholesky's factor",
        ALGEBRA,
        "A symmetric positive definite matrix as a lower triangle times its transpose, column by "
        "column.",
        _POLYBENCH.format("cholesky"),
    ),
    "trisolv": Example(
        "A triangular system",
        ALGEBRA,
        "Forward substitution: each unknown is what is left of its equation, when the ones before "
        "are known.",
        _POLYBENCH.format("trisolv"),
    ),
    "durbin": Example(
        "A Toeplitz system: Durbin",
        ALGEBRA,
        "The equations of Yule and Walker, whose matrix has equal diagonals, in a number of "
        "operations that grows with the square of the size: the solution for each size is made of "
        "that for one less.",
        _POLYBENCH.format("durbin"),
    ),
    "gramschmidt": Example(
        "QR factors by Gram and Schmidt",
        ALGEBRA,
        "Columns made orthonormal one after the other, and the coefficients as a triangle.",
        _POLYBENCH.format("gramschmidt"),
    ),
    "thomas": Example(
        "Many tridiagonal systems: Thomas",
        ALGEBRA,
        "Elimination and substitution along the diagonals, for many right sides at once: one "
        "`scan` there, one back.",
        "L. H. Thomas, *Elliptic problems in linear difference equations over a network*, Watson "
        "Scientific Computing Laboratory Report, Columbia University, 1949.",
    ),
    "gemver": Example(
        "Products of vectors and a matrix",
        ALGEBRA,
        "A matrix plus two outer products, its transpose times a vector, and it times the result.",
        _POLYBENCH.format("gemver"),
    ),
    "conjugate gradients": Example(
        "Conjugate gradients",
        ALGEBRA,
        "A symmetric positive definite system by steps along directions that do not disturb each "
        "other, until the residual is small: a `while_loop` whose length is not known before.",
        "M. R. Hestenes and E. Stiefel, *Methods of conjugate gradients for solving linear "
        "systems*, Journal of Research of the National Bureau of Standards 49, 1952.",
    ),
    "gmres": Example(
        "GMRES",
        ALGEBRA,
        "A system without symmetry: thirty steps build an orthonormal basis of what the matrix "
        "makes of the right side, and rotations keep the small problem in it triangular.",
        "Y. Saad and M. H. Schultz, *GMRES: a generalized minimal residual algorithm for solving "
        "nonsymmetric linear systems*, SIAM Journal on Scientific and Statistical Computing 7, "
        "1986.",
    ),
    "fft by hand": Example(
        "A Fourier transform by hand",
        ALGEBRA,
        "Stockham's transform of a power of two: each round combines halves with twiddle factors "
        "and needs no reordering.",
        "T. G. Stockham, *High-speed convolution and correlation*, Proceedings of the AFIPS Spring "
        "Joint Computer Conference, 1966.",
    ),
    "floyd-warshall": Example(
        "All shortest paths",
        SEQUENCES,
        "The distance between any two nodes of a graph: for each node, whether it is shorter to go "
        "through it.",
        "R. W. Floyd, *Algorithm 97: shortest path*, Communications of the ACM 5, 1962; "
        "PolyBench/C 4.2, `floyd-warshall`.",
    ),
    "needleman-wunsch": Example(
        "Alignment of two sequences",
        SEQUENCES,
        "The best score with which the beginnings of two sequences can be laid side by side, a gap "
        "costing one. Each element waits for three neighbours: a `scan` inside of a `scan`.",
        "S. B. Needleman and C. D. Wunsch, *A general method applicable to the search for "
        "similarities in the amino acid sequence of two proteins*, Journal of Molecular Biology "
        "48, 1970.",
    ),
    "viterbi": Example(
        "The likeliest path: Viterbi",
        SEQUENCES,
        "The sequence of hidden states that explains what was seen best: forward with the best "
        "score for each state, and back along the pointers.",
        "A. J. Viterbi, *Error bounds for convolutional codes and an asymptotically optimum "
        "decoding algorithm*, IEEE Transactions on Information Theory 13, 1967.",
    ),
    "kalman": Example(
        "Kalman's filter",
        SEQUENCES,
        "Position and velocity of something that moves in a plane, estimated from positions that "
        "are measured with noise: predict, then correct by the gain.",
        "R. E. Kalman, *A new approach to linear filtering and prediction problems*, Journal of "
        "Basic Engineering 82, 1960.",
    ),
    "linear recurrence": Example(
        "Linear recurrences",
        SEQUENCES,
        "x ← a + b x along the first axis, and then back over what came of it.",
        _LIVERMORE.format("19"),
    ),
    "histogram by elements": Example(
        "A histogram, particle by particle",
        SEQUENCES,
        "Each particle adds its weight where it lands, in a loop over single elements that updates "
        "an array in place.",
        _LIVERMORE.format("13, the part that counts"),
    ),
    "pagerank": Example(
        "PageRank",
        SEQUENCES,
        "How often someone who follows links at random is on each page: a sum over all links by "
        "`at[...].add`, twenty times.",
        "L. Page, S. Brin, R. Motwani and T. Winograd, *The PageRank citation ranking: bringing "
        "order to the web*, Stanford University, 1998.",
    ),
    "k-means": Example(
        "k-means",
        SEQUENCES,
        "Each point belongs to the nearest of eight centres, and each centre moves to the mean of "
        "its points; ten times.",
        "S. P. Lloyd, *Least squares quantization in PCM*, Bell Laboratories, 1957; IEEE "
        "Transactions on Information Theory 28, 1982.",
    ),
    "lstm": Example(
        "A long short-term memory",
        LEARNING,
        "A recurrent layer with gates along a sequence of fifty steps, for a batch.",
        "S. Hochreiter and J. Schmidhuber, *Long short-term memory*, Neural Computation 9, 1997, "
        "with the forget gate of F. A. Gers, J. Schmidhuber and F. Cummins, 2000.",
    ),
    "attention decoder": Example(
        "Greedy decoding with attention",
        LEARNING,
        "A layer of attention with four heads writes sixty-four tokens, each the likeliest after "
        "those before. Keys and values are kept in a cache that is updated in place.",
        "A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser and "
        "I. Polosukhin, *Attention is all you need*, 2017.",
    ),
    "convolutions NHWC": Example(
        "A convolutional network, channels last",
        LEARNING,
        "Two layers of convolution, rectification and pooling, a mean over the image, and a linear "
        "layer.",
        _CONVOLUTIONS,
    ),
    "convolutions NCHW": Example(
        "A convolutional network, channels first",
        LEARNING,
        "The same network with the other order of axes: what the compiler makes of it differs, the "
        "results do not.",
        _CONVOLUTIONS,
    ),
}
