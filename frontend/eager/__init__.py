"""Operations outside any trace: evaluated at once."""
