"""The vectors of a machine, as far as loops are made for them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vectors:
    """Their width in bits, how many of them registers hold, and which sums of products are instructions: of tiles
    (`amx`), of pairs of 16 bits.
    """

    bits: int = 512
    registers: int = 32
    amx: bool = False
    pairs: bool = False

    @property
    def sums(self) -> int:
        """Running sums of a tile at most: the other registers hold factors."""
        return 3 * self.registers // 4

    @property
    def copies(self) -> int:
        """Vectors of a row of a tile at most, next to which as many factors and one of a column have room."""
        return self.registers // 8

    def side_of(self, rows: int) -> int:
        """Vectors of each of so many rows: beside the sums there is room for as many, and for one of a column."""
        return min(self.sums // rows, (self.registers - 1) // (rows + 1))

    @property
    def values(self) -> int:
        """Running values of columns at most."""
        return self.registers // 2
