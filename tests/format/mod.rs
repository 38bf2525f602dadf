mod mat;
